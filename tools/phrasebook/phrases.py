"""Fixed phrases: greetings, thanks, small talk, the sentences one learns first.

They mean what they mean as a whole, so no combination of them can be held out: all are for
training. One a line: English, "|", Chinese, both with their final mark.
"""

from __future__ import annotations

from .words import Pair

_TEXT = """Hello!|你好！
Hi!|嗨！
Good morning!|早上好！
Good afternoon!|下午好！
Good evening!|晚上好！
Good night!|晚安！
Good morning, everyone!|大家早上好！
Good morning, teacher!|老师早上好！
Goodbye!|再见！
Bye!|拜拜！
See you tomorrow!|明天见！
See you later!|回头见！
See you next week!|下个星期见！
Welcome!|欢迎！
Welcome to China!|欢迎来到中国！
Welcome to Beijing!|欢迎来到北京！
Welcome home!|欢迎回家！
Nice to meet you!|很高兴认识你！
Nice to meet you, too!|我也很高兴认识你！
Long time no see!|好久不见！
How are you?|你好吗？
How are you today?|你今天好吗？
I'm fine, thank you.|我很好，谢谢。
I am fine.|我很好。
And you?|你呢？
Not bad.|还不错。
What is your name?|你叫什么名字？
What's your name?|你叫什么名字？
What is his name?|他叫什么名字？
What is her name?|她叫什么名字？
Where are you from?|你是哪里人？
Where is he from?|他是哪里人？
Where is she from?|她是哪里人？
How old are you?|你多大了？
Thank you!|谢谢你！
Thanks!|谢谢！
Thank you very much!|非常感谢！
Thank you for your help!|谢谢你的帮助！
You're welcome!|不客气！
You are welcome!|不客气！
I'm sorry.|对不起。
I am sorry.|对不起。
I'm very sorry.|非常对不起。
Sorry, I'm late.|对不起，我迟到了。
It doesn't matter.|没关系。
That's all right.|没关系。
No problem!|没问题！
Don't worry!|别担心！
Excuse me!|打扰一下！
Please come in!|请进！
Please sit down!|请坐！
Please stand up!|请站起来！
Please wait a moment!|请等一下！
Please speak slowly!|请慢一点说！
Please say it again!|请再说一遍！
Please be quiet!|请安静！
Please help me!|请帮帮我！
Please call me!|请给我打电话！
Please follow me!|请跟我来！
Please open the door!|请把门打开！
Please close the door!|请把门关上！
Please open the window!|请把窗户打开！
Please close the window!|请把窗户关上！
Please turn on the light!|请把灯打开！
Please turn off the light!|请把灯关上！
Please turn on the TV!|请把电视打开！
Please turn off the TV!|请把电视关上！
Help!|救命！
Be careful!|小心！
Hurry up!|快点！
Come here!|过来！
Go away!|走开！
Stop!|停下！
Wait!|等一下！
Look!|看！
Listen!|听！
Wake up!|醒醒！
Come on!|加油！
Let's go!|我们走吧！
Cheers!|干杯！
Congratulations!|恭喜！
Happy birthday!|生日快乐！
Happy New Year!|新年快乐！
Merry Christmas!|圣诞快乐！
Good luck!|祝你好运！
Have a nice day!|祝你今天愉快！
Have a good trip!|一路平安！
Have a good weekend!|周末愉快！
Sweet dreams!|做个好梦！
Get well soon!|祝你早日康复！
Take care!|保重！
Enjoy your meal!|祝你用餐愉快！
Yes.|是的。
No.|不是。
Of course!|当然！
OK!|好的！
Maybe.|也许。
Really?|真的吗？
Me too.|我也是。
I think so.|我觉得是这样。
I don't think so.|我不这么认为。
I agree.|我同意。
I don't agree.|我不同意。
I agree with you.|我同意你的看法。
You are right.|你说得对。
You are wrong.|你错了。
That's right.|没错。
That's great!|太好了！
That's too bad!|太可惜了！
What a pity!|真可惜！
Great!|太棒了！
Well done!|做得好！
I love you.|我爱你。
I love you, too.|我也爱你。
I love you so much.|我非常爱你。
I love you forever.|我永远爱你。
I will always love you.|我会永远爱你。
Do you love me?|你爱我吗？
Will you marry me?|你愿意嫁给我吗？
I miss you so much.|我非常想念你。
I like you.|我喜欢你。
We love China.|我们爱中国。
I love my family.|我爱我的家人。
I love my country.|我爱我的祖国。
I understand.|我明白。
I don't understand.|我不明白。
Do you understand?|你明白吗？
I know.|我知道。
I don't know.|我不知道。
I do not know.|我不知道。
I forgot.|我忘了。
I can't remember.|我不记得了。
I don't care.|我不在乎。
I'm lost.|我迷路了。
I am lost.|我迷路了。
I'm a student.|我是学生。
I am a student.|我是学生。
I'm ready.|我准备好了。
Are you ready?|你准备好了吗？
I'm coming.|我来了。
I'm back.|我回来了。
I'm full.|我饱了。
I'm cold.|我很冷。
I'm sick.|我病了。
I have a cold.|我感冒了。
I have a fever.|我发烧了。
I have a headache.|我头疼。
I have a stomachache.|我肚子疼。
I don't feel well.|我不舒服。
I need a doctor.|我需要医生。
Call the police!|报警！
Call an ambulance!|叫救护车！
What happened?|发生了什么事？
What's wrong?|怎么了？
What is the matter with you?|你怎么了？
What is this?|这是什么？
What is that?|那是什么？
What are you doing?|你在做什么？
What is he doing?|他在做什么？
What is she doing?|她在做什么？
What are they doing?|他们在做什么？
What do you do?|你是做什么工作的？
What did you say?|你说什么？
What do you mean?|你是什么意思？
What does this word mean?|这个词是什么意思？
How do you say this in Chinese?|这个用中文怎么说？
How do you say this in English?|这个用英语怎么说？
What time is it?|现在几点？
What time is it now?|现在几点了？
What day is it today?|今天星期几？
What's the date today?|今天几号？
How is the weather today?|今天天气怎么样？
The weather is very good today.|今天天气非常好。
It's raining.|下雨了。
It's snowing.|下雪了。
Who are you?|你是谁？
Who is he?|他是谁？
Who is she?|她是谁？
Who are they?|他们是谁？
Where are you?|你在哪里？
Where am I?|我在哪里？
Where are you going?|你要去哪里？
Where do you live?|你住在哪里？
Where is the toilet?|洗手间在哪里？
Where is my key?|我的钥匙在哪里？
When will you come back?|你什么时候回来？
When is your birthday?|你的生日是什么时候？
Why?|为什么？
Why not?|为什么不呢？
Who?|谁？
When?|什么时候？
Where?|哪里？
How much is it?|多少钱？
It's too expensive.|太贵了。
Can it be cheaper?|可以便宜一点吗？
I'll take it.|我买了。
The bill, please.|请结账。
A glass of water, please.|请给我一杯水。
A cup of coffee, please.|请给我一杯咖啡。
Can you help me?|你能帮我吗？
Can you speak English?|你会说英语吗？
I can speak a little Chinese.|我会说一点中文。
I'm learning Chinese.|我在学中文。
Chinese is very interesting.|中文非常有意思。
Chinese is not difficult.|中文不难。
My Chinese is not very good.|我的中文不太好。
May I come in?|我可以进来吗？
May I ask you a question?|我可以问你一个问题吗？
Here you are.|给你。
It's delicious!|真好吃！
It's beautiful!|真漂亮！
It's time to go.|该走了。
I'm going home.|我要回家了。
I want to go home.|我想回家。
I'm on my way.|我在路上。
I live here.|我住在这里。
I work here.|我在这里工作。
There is nobody here.|这里没有人。
Nobody knows.|没有人知道。
Everybody knows.|大家都知道。
Everything is fine.|一切都很好。
Time is money.|时间就是金钱。
Knowledge is power.|知识就是力量。
Practice makes perfect.|熟能生巧。
It's up to you.|由你决定。
That is a good idea!|好主意！
That's a good question!|好问题！
I have an idea.|我有一个主意。
I have a question.|我有一个问题。
I have no money.|我没有钱。
I have no time.|我没有时间。
I believe you.|我相信你。
I don't believe it.|我不相信。
Don't cry!|别哭！
Don't be afraid!|别怕！
Don't forget!|别忘了！
Don't move!|别动！
Don't be late!|别迟到！
Life is beautiful.|生活很美好。
The world is very big.|世界非常大。
The moon is very beautiful tonight.|今天晚上的月亮非常漂亮。
The sky is blue.|天空是蓝色的。
The earth is round.|地球是圆的。
Love is important.|爱很重要。"""


def fixed() -> list[Pair]:
    """Give all fixed phrases with their final marks."""
    return [
        (english, chinese) for english, chinese in (line.split("|") for line in _TEXT.splitlines())
    ]
