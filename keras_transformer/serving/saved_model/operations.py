"""Operations known to run in TensorFlow Serving."""

from __future__ import annotations

TESTED_OPERATIONS = frozenset(
    {
        *("Abs", "AddV2", "All", "Any", "ArgMax", "Assert", "AssignVariableOp", "BatchMatMulV2"),
        *("BiasAdd", "Bitcast", "BroadcastTo", "Cast", "ConcatV2", "Const", "Cos", "Cumsum"),
        *("DenseBincount", "DisableCopyOnRead", "Empty", "Equal", "Erfc", "Exp", "ExpandDims"),
        *("Fill", "FloorDiv", "FloorMod", "GatherV2", "Greater", "GreaterEqual", "HashTableV2"),
        *("Identity", "If"),
        *("InplaceUpdate", "InvertPermutation", "Less", "LessEqual", "Log", "LogicalAnd"),
        *("LogicalNot", "LogicalOr", "LookupTableFindV2", "LookupTableImportV2", "MatMul", "Max"),
        *("Maximum", "Mean", "MergeV2Checkpoints", "Minimum", "Mul", "Neg", "NoOp", "NotEqual"),
        *("Pack", "Pad", "PadV2", "PartitionedCall", "Placeholder", "Pow", "Prod", "RaggedGather"),
        *("RaggedRange", "RaggedTensorToTensor", "Range", "ReadVariableOp", "RealDiv"),
        *("ReduceJoin", "Relu", "Reshape", "RestoreV2", "ReverseSequence", "Rsqrt", "SaveV2"),
        *("Select", "SelectV2", "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp"),
        *("SentencepieceOp", "SentencepieceTokenizeOp", "Shape", "ShardedFilename", "Sigmoid"),
        *("Sin", "Size", "Softmax", "SparseSoftmaxCrossEntropyWithLogits", "Split", "SplitV"),
        *("SquaredDifference", "Squeeze", "StatefulPartitionedCall", "StatelessIf"),
        *("StatelessWhile", "StaticRegexFullMatch", "StaticRegexReplace", "StopGradient"),
        *("StridedSlice", "StringJoin", "StringSplitV2", "StringStrip", "Sub", "Sum", "Tanh"),
        *("TensorListFromTensor", "TensorListGetItem", "TensorListReserve", "TensorListSetItem"),
        *("TensorListStack", "TensorScatterUpdate", "Tile", "TopKV2", "Transpose", "Unpack"),
        *("VarHandleOp", "VarIsInitializedOp", "Where", "While", "ZerosLike"),
    }
)
"""Operations that ran without Python in the C++ runtimes of TensorFlow 2.20 and 2.21, in exports
of every kind of model. Test an operation there before you add it."""
