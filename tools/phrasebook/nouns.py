"""Things, animals and materials of the phrasebook, sorted by what can be done with them.

Each table entry is English, Chinese and the measure word (量词) that counts it.
"""

from __future__ import annotations

from .words import Adjective, read_adjectives, read_nouns, read_phrases

FRUIT = read_nouns(
    "fruit",
    """apple,苹果,个; pear,梨,个; orange,橙子,个; banana,香蕉,根; peach,桃子,个; mango,芒果,个;
    watermelon,西瓜,个; tomato,西红柿,个; strawberry,草莓,颗; cherry,樱桃,颗""",
)
SNACKS = read_nouns(
    "food",
    """egg,鸡蛋,个; sandwich,三明治,个; hamburger,汉堡,个; cake,蛋糕,个; cookie,饼干,块;
    piece of bread,面包,块; piece of chocolate,巧克力,块; ice cream,冰淇淋,个""",
)
BOWLS = read_nouns(
    "bowl", "bowl of rice,米饭,碗; bowl of noodles,面条,碗; plate of dumplings,饺子,盘"
)
DRINKS = read_nouns(
    "drink",
    """cup of tea,茶,杯; cup of coffee,咖啡,杯; glass of water,水,杯; glass of milk,牛奶,杯;
    glass of juice,果汁,杯; glass of wine,葡萄酒,杯; bottle of beer,啤酒,瓶;
    bottle of water,水,瓶; bottle of wine,葡萄酒,瓶""",
)
READING = read_nouns(
    "text",
    """book,书,本; novel,小说,本; magazine,杂志,本; newspaper,报纸,份; article,文章,篇;
    report,报告,份; poem,诗,首; story,故事,个""",
)
MAIL = read_nouns("mail", "letter,信,封; email,电子邮件,封; postcard,明信片,张")
FILMS = read_nouns("film", "movie,电影,部; game,比赛,场; show,节目,个")
CLOTHES = read_nouns(
    "clothes",
    """shirt,衬衫,件; coat,大衣,件; sweater,毛衣,件; jacket,夹克,件; raincoat,雨衣,件;
    skirt,裙子,条; dress,连衣裙,条; suit,西装,套; uniform,制服,套;
    pair of pants,裤子,条; pair of shoes,鞋子,双; pair of socks,袜子,双""",
)
# These are 戴 and not 穿 in Chinese.
WORN = read_nouns(
    "clothes",
    """hat,帽子,顶; scarf,围巾,条; tie,领带,条; pair of gloves,手套,副; pair of glasses,眼镜,副""",
)
JEWELRY = read_nouns("jewelry", "watch,手表,块; ring,戒指,枚; necklace,项链,条")
DEVICES = read_nouns(
    "device",
    """phone,手机,部; computer,电脑,台; camera,照相机,台; television,电视机,台; radio,收音机,台;
    fridge,冰箱,台; washing machine,洗衣机,台; printer,打印机,台; air conditioner,空调,台""",
)
VEHICLES = read_nouns(
    "vehicle",
    """car,汽车,辆; bike,自行车,辆; motorcycle,摩托车,辆; truck,卡车,辆; bus,公共汽车,辆;
    taxi,出租车,辆""",
)
OWN_VEHICLES = VEHICLES[:4]
FURNITURE = read_nouns(
    "furniture",
    """table,桌子,张; chair,椅子,把; bed,床,张; sofa,沙发,张; desk,书桌,张; bookcase,书柜,个;
    wardrobe,衣柜,个; lamp,台灯,盏; mirror,镜子,面; carpet,地毯,块""",
)
TABLEWARE = read_nouns(
    "vessel",
    """cup,杯子,个; bowl,碗,个; plate,盘子,个; bottle,瓶子,个; teapot,茶壶,把; pot,锅,口;
    knife,刀,把; fork,叉子,把; spoon,勺子,把""",
)
CARRIED = read_nouns(
    "item",
    """umbrella,雨伞,把; bag,包,个; backpack,背包,个; suitcase,行李箱,个; wallet,钱包,个;
    toy,玩具,个; ball,球,个; box,盒子,个""",
)
GIFTS = read_nouns("gift", "gift,礼物,份; card,卡片,张")
PAPERS = read_nouns(
    "paper",
    """key,钥匙,把; ticket,票,张; photo,照片,张; passport,护照,本; map,地图,张; stamp,邮票,枚;
    envelope,信封,个""",
)
STATIONERY = read_nouns(
    "stationery",
    """pen,钢笔,支; pencil,铅笔,支; notebook,笔记本,本; dictionary,词典,本; ruler,尺子,把;
    eraser,橡皮,块""",
)
INSTRUMENTS = read_nouns(
    "instrument", "guitar,吉他,把; piano,钢琴,架; violin,小提琴,把; flute,笛子,支"
)
PETS = read_nouns(
    "animal", "cat,猫,只; dog,狗,只; bird,鸟,只; rabbit,兔子,只; duck,鸭子,只; fish,鱼,条"
)
FARM_ANIMALS = read_nouns("animal", "horse,马,匹; cow,牛,头; pig,猪,头; sheep,羊,只; donkey,驴,头")
WILD_ANIMALS = read_nouns(
    "beast",
    """monkey,猴子,只; panda,熊猫,只; tiger,老虎,只; elephant,大象,头; lion,狮子,头;
    snake,蛇,条; wolf,狼,只; bear,熊,只""",
)
SMALL_ANIMALS = read_nouns("animal", "frog,青蛙,只; butterfly,蝴蝶,只; mouse,老鼠,只; bee,蜜蜂,只")
PLANTS = read_nouns("plant", "flower,花,朵; rose,玫瑰,朵; tree,树,棵")
LANDSCAPE = read_nouns(
    "sight",
    """house,房子,栋; bridge,桥,座; mountain,山,座; river,河,条; tower,塔,座; temple,寺庙,座;
    island,岛,座; street,街,条; garden,花园,个""",
)
BUILDINGS = read_nouns(
    "building",
    """bank,银行,家; hospital,医院,家; hotel,酒店,家; restaurant,餐馆,家; supermarket,超市,家;
    bookstore,书店,家; café,咖啡馆,家; pharmacy,药店,家; school,学校,所; university,大学,所;
    library,图书馆,座; museum,博物馆,座; park,公园,座; cinema,电影院,家; post office,邮局,个;
    factory,工厂,家; gym,健身房,家; church,教堂,座; station,车站,个; market,市场,个""",
)
JOBS = read_nouns(
    "person",
    """teacher,老师,位; doctor,医生,位; nurse,护士,位; engineer,工程师,位; driver,司机,位;
    lawyer,律师,位; writer,作家,位; singer,歌手,位; chef,厨师,位; waiter,服务员,位;
    police officer,警察,位; scientist,科学家,位; actor,演员,位; farmer,农民,位; worker,工人,位;
    manager,经理,位; reporter,记者,位; painter,画家,位; dentist,牙医,位; pilot,飞行员,位;
    professor,教授,位; musician,音乐家,位; coach,教练,位; secretary,秘书,位;
    architect,建筑师,位; artist,艺术家,位; student,学生,个; guide,导游,位""",
)
PEOPLE = read_nouns(
    "person", "child,孩子,个; boy,男孩,个; girl,女孩,个; man,男人,个; woman,女人,个"
)

FOODS = read_phrases(
    """rice,米饭; noodles,面条; bread,面包; beef,牛肉; chicken,鸡肉; fish,鱼; dumplings,饺子;
    fruit,水果; vegetables,蔬菜; chocolate,巧克力; eggs,鸡蛋; tofu,豆腐; apples,苹果;
    bananas,香蕉; Chinese food,中国菜"""
)
LIQUIDS = read_phrases(
    "tea,茶; coffee,咖啡; milk,牛奶; water,水; beer,啤酒; juice,果汁; wine,葡萄酒; green tea,绿茶"
)
LANGUAGES = read_phrases(
    """Chinese,中文; English,英语; French,法语; Japanese,日语; German,德语; Spanish,西班牙语;
    Russian,俄语; Korean,韩语; Italian,意大利语"""
)
SUBJECTS_TAUGHT = read_phrases(
    "math,数学; history,历史; physics,物理; chemistry,化学; music,音乐; geography,地理; art,艺术"
)
LEISURE = read_phrases(
    """basketball,篮球; football,足球; tennis,网球; baseball,棒球; table tennis,乒乓球; music,音乐;
    movies,电影; poems,诗; flowers,花; cats,猫; dogs,狗; horses,马; children,孩子; novels,小说;
    history,历史; math,数学; Chinese tea,中国茶; summer,夏天; winter,冬天; spring,春天;
    autumn,秋天"""
)


_ADJECTIVES = read_adjectives(
    """new,新,新,newer
    old,旧,旧,older,*
    big,大,大,bigger,*
    small,小,小,smaller,*
    good,好,好,better
    expensive,贵,很贵的,-,*
    cheap,便宜,便宜的,cheaper
    beautiful,漂亮,漂亮的,-
    interesting,有意思,有意思的,-
    boring,无聊,无聊的,-,*
    difficult,难,很难的,-,*
    easy,容易,容易的,easier
    useful,有用,有用的,-
    clean,干净,干净的,cleaner
    dirty,脏,脏,dirtier,*
    heavy,重,很重的,heavier,*
    light,轻,很轻的,lighter
    long,长,很长的,longer,*
    short,短,很短的,shorter,*
    fast,快,很快的,faster
    slow,慢,很慢的,slower,*
    comfortable,舒服,舒服的,-
    delicious,好吃,好吃的,-
    fresh,新鲜,新鲜的,fresher
    sweet,甜,很甜的,sweeter,*
    cute,可爱,可爱的,cuter
    fat,胖,胖胖的,fatter,*
    clever,聪明,聪明的,cleverer
    lazy,懒,很懒的,lazier,*
    popular,受欢迎,受欢迎的,-
    dangerous,危险,危险的,-,*
    quiet,安静,安静的,quieter
    noisy,吵,很吵的,noisier,*
    strange,奇怪,奇怪的,-,*
    simple,简单,简单的,simpler
    important,重要,重要的,-
    famous,出名,著名的,-
    ancient,古老,古老的,-
    special,特别,特别的,-"""
)
COLORS = tuple(
    Adjective(en, zh, zh + "的", "")
    for en, zh in (
        ("red", "红色"),
        ("blue", "蓝色"),
        ("green", "绿色"),
        ("yellow", "黄色"),
        ("black", "黑色"),
        ("white", "白色"),
        ("brown", "棕色"),
        ("gray", "灰色"),
        ("pink", "粉色"),
        ("purple", "紫色"),
    )
)


_BY_NAME = {adjective.en: adjective for adjective in _ADJECTIVES}


def _chosen(names: str) -> tuple[Adjective, ...]:
    return tuple(_BY_NAME[name] for name in names.split())


# Which properties a thing may be named with: "I bought a new phone."
FITTING: dict[str, tuple[Adjective, ...]] = {
    "fruit": _chosen("sweet fresh big small"),
    "food": _chosen("delicious big small"),
    "text": _chosen("interesting boring difficult useful long short simple strange"),
    "film": _chosen("interesting boring good"),
    "clothes": _chosen("new old beautiful expensive cheap comfortable"),
    "jewelry": _chosen("new old beautiful expensive cheap"),
    "device": _chosen("new old expensive cheap good"),
    "instrument": _chosen("new old expensive cheap good beautiful"),
    "vehicle": _chosen("new old expensive cheap fast"),
    "furniture": _chosen("new old big small beautiful expensive cheap"),
    "vessel": _chosen("new old big small beautiful"),
    "item": _chosen("new old expensive cheap"),
    "stationery": _chosen("new old expensive cheap"),
    "gift": _chosen("expensive beautiful small special"),
    "animal": _chosen("cute big small fat"),
    "beast": _chosen("big small"),
    "plant": _chosen("beautiful big small"),
    "sight": _chosen("beautiful famous ancient"),
    "building": _chosen("big small new quiet famous"),
}
_ALSO = {
    "fruit": _chosen("delicious expensive cheap"),
    "food": _chosen("fresh expensive cheap"),
    "text": _chosen("easy popular important"),
    "film": _chosen("popular long short strange"),
    "clothes": _chosen("clean dirty popular"),
    "device": _chosen("heavy light useful popular"),
    "instrument": _chosen("heavy"),
    "vehicle": _chosen("slow comfortable clean dirty"),
    "furniture": _chosen("clean dirty heavy"),
    "vessel": _chosen("clean dirty cheap expensive"),
    "item": _chosen("beautiful big small"),
    "stationery": _chosen("useful"),
    "paper": _chosen("important old"),
    "animal": _chosen("clever lazy"),
    "beast": _chosen("dangerous fat clever lazy"),
    "building": _chosen("clean noisy popular beautiful"),
}
# What can be stated of it: "This phone is popular."
STATED = {kind: FITTING.get(kind, ()) + _ALSO.get(kind, ()) for kind in {**FITTING, **_ALSO}}
_COLORED = ("clothes", "vehicle", "item", "stationery")
NAMED_WITH = {
    kind: adjectives + (COLORS if kind in _COLORED else ()) for kind, adjectives in FITTING.items()
}
