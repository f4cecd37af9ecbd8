"""Odd values that every fuzzer may write where something ordinary is meant."""

from random import Random

NUMBERS = (
    "0", "-0", "1", "-1", "2", "0.5", "1e-300", "1e300", "1e308", "1e309", "1e400", "-1e400", "5e-324", "nan", "NaN", ".nan", "inf", "-inf", ".inf",
    "1_000", "1__0", "0x10", "0o17", "0b11", "017", "1e", "1.", ".5", "+3", "1,5", "1.000.000", "½", "²", "٣", "\uff13", "1e-9", "2:4", "12:30:45",
    "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + "0" * 30, "9" * 400, "7" * 5000, "1j",
)  # fmt: skip
TEXTS = (
    "", " ", "\t", "\n", "\x00", "\x1b[31m", "\x7f", "\u200f", "\u202eabc", "\ufeff", "\U0001f600", "é", "e\u0301", "ß", "中文", "../..", "/etc/passwd", "/",
    "..", ".", "~", "con", "a" * 300, "b" * 5000, "null", "true", "no", "~", "2026-11-21", "%s%n", "{}", "[]", "{0}", "\\", "'", '"', "`", "$(x)", "#", "&a",
    "*a", "!!python/object:os.system", "<<", "---", "...", "?", ":", "-", "|", ">", "@", "%YAML 1.1", "a: b", "a/b", "a.b", "__proto__", "__class__",
)  # fmt: skip


def number(random: Random) -> str:
    """A number, as written: often odd, sometimes of very many digits."""
    if random.random() < 0.02:
        return str(random.randint(1, 9)) * random.choice([4299, 4301, 10_000, 100_000])
    if random.random() < 0.3:
        return repr(random.choice([-1, 1]) * 10 ** random.uniform(-12, 18))
    return random.choice(NUMBERS)


def text(random: Random) -> str:
    """A text: odd, or a number."""
    return random.choice(TEXTS) if random.random() < 0.7 else number(random)


def damaged(random: Random, written: str, most: int = 3) -> str:
    """`written` with some characters removed, doubled, replaced or exchanged."""
    characters = list(written)
    for _ in range(random.randint(1, most)):
        if not characters:
            return text(random)
        place = random.randrange(len(characters))
        change = random.randrange(4)
        if change == 0:
            del characters[place]
        elif change == 1:
            characters[place:place] = [characters[place]] * random.choice([1, 2, 50])
        elif change == 2:
            characters[place] = random.choice(
                ("\x00", "é", "٣", "²", " ", "9", ":", "/", "*", "-", ".", "x", "\n", "\u202e", "(", "[", "{", '"', "'", "#")
            )
        else:
            other = random.randrange(len(characters))
            characters[place], characters[other] = characters[other], characters[place]
    return "".join(characters)
