"""Says when cron expressions fire, by walking through the time.

It follows docs/adr/0051-a-named-time-fires-when-the-clock-reaches-it.md and shares no code with
the package. Each line of its input is a JSON object with the file of a time zone, two instants as
Unix times, and expressions with their options; each line of its output has the fires from the
first instant to before the second one, as a list for each expression.
"""

import calendar
import datetime
import hashlib
import json
import re
import sys
import zoneinfo

FIELDS = [  # name, smallest value, largest value of "*"
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 0, 6),
]
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()


def number(text, field):
    if text in MONTHS and field == "month":
        return MONTHS.index(text) + 1
    if text in DAYS and field == "day of week":
        return DAYS.index(text)
    return int(text)


def values(item, field, low, high, name):
    """The set of values of an item that does not depend on the month."""
    base, _, step = item.partition("/")
    every = list(range(low, high + 1))
    if base in ("*", "?"):
        chosen = every
    elif base.startswith("H"):
        inside = re.fullmatch(r"H\((\w+)-(\w+)\)", base)
        if inside:
            chosen = span(number(inside[1], field), number(inside[2], field), field, every)
        else:
            chosen = [v for v in every if field != "day of month" or v <= 28]
        digest = hashlib.sha256((name + "\n" + field).encode()).digest()
        h = int.from_bytes(digest[:8], "big")
        if not step:
            return {chosen[h % len(chosen)]}
        chosen = chosen[h % int(step):]
    elif "-" in base:
        first, last = base.split("-")
        chosen = span(number(first, field), number(last, field), field, every)
    elif step:
        chosen = span(number(base, field) % (high + 1), high, field, every)
    else:
        chosen = [number(base, field)]
    return {v % 7 if field == "day of week" else v for v in chosen[:: int(step or 1)]}


def span(first, last, field, every):
    """The values of a range in their order."""
    if field == "day of week" and last == 7 and first != 7:
        return list(range(first, 8)) if first else every
    if field == "day of week":
        first, last = first % 7, last % 7
    if first <= last:
        return list(range(first, last + 1))
    return [v for v in every if v >= first] + [v for v in every if v <= last]


def nearest_weekday(year, month, day):
    """The weekday of the month that is nearest to one of its days."""
    length = calendar.monthrange(year, month)[1]
    weekdays = [d for d in range(1, length + 1) if datetime.date(year, month, d).isoweekday() <= 5]
    return min(weekdays, key=lambda d: abs(d - day))


def day_of_month_matches(items, date, name):
    length = calendar.monthrange(date.year, date.month)[1]
    for item in items:
        if item == "L":
            found = date.day == length
        elif item == "LW":
            found = date.day == nearest_weekday(date.year, date.month, length)
        elif item.startswith("L-"):
            found = date.day == length - int(item[2:])
        elif item.endswith("W"):
            day = int(item[:-1])
            found = day <= length and date.day == nearest_weekday(date.year, date.month, day)
        else:
            found = date.day in values(item, "day of month", 1, 31, name)
        if found:
            return True
    return False


def day_of_week_matches(items, date, name):
    length = calendar.monthrange(date.year, date.month)[1]
    weekday = date.isoweekday() % 7
    for item in items:
        if "#" in item:
            day, nth = item.split("#")
            found = weekday == number(day, "day of week") % 7 and (date.day - 1) // 7 + 1 == int(nth)
        elif item.endswith("L"):
            found = weekday == number(item[:-1], "day of week") % 7 and date.day > length - 7
        else:
            found = weekday in values(item, "day of week", 0, 6, name)
        if found:
            return True
    return False


class Expression:
    def __init__(self, text, name):
        fields = text.upper().split()
        self.by_seconds = len(fields) == 6
        if not self.by_seconds:
            fields.insert(0, "0")
        self.sets = []
        for (field, low, high), items in zip(FIELDS, fields):
            if field in ("day of month", "day of week"):
                self.sets.append(items.split(","))
            else:
                self.sets.append(set().union(*(values(i, field, low, high, name) for i in items.split(","))))
        self.name = name
        self.names_hours = self.sets[2] != set(range(24))
        self.either = fields[3][0] not in "*?" and fields[5][0] not in "*?"
        self.days = {}

    def day_matches(self, date):
        if date not in self.days:
            by_month = day_of_month_matches(self.sets[3], date, self.name)
            by_week = day_of_week_matches(self.sets[5], date, self.name)
            both = (by_month or by_week) if self.either else (by_month and by_week)
            self.days[date] = both and date.month in self.sets[4]
        return self.days[date]

    def matches(self, wall):
        return (
            wall.minute in self.sets[1]
            and wall.hour in self.sets[2]
            and wall.second in self.sets[0]
            and self.day_matches(wall.date())
        )


def walk(zone, first, last, step):
    """Pairs of an instant and what the clock shows at it. It begins before the first one, to
    know what the clock has shown; since 1970 no clock was put back by that much."""
    before = 8 * 3600
    start = first - before
    for at in range(start, last, step):
        yield at, datetime.datetime.fromtimestamp(at, zone).replace(tzinfo=None)


def fires(expression, gap, repeat, steps, first, step):
    found = []
    highest = steps[0][1]
    tick = datetime.timedelta(seconds=step)
    for at, wall in steps[1:]:
        matches = expression.matches(wall)
        if not expression.names_hours:
            fire = matches
        elif wall > highest:  # a time is reached, and with it those that were jumped over
            fire = matches
            missed = highest + tick
            while gap == "run_after" and missed < wall and not fire:
                fire = expression.matches(missed)
                missed += tick
        else:  # a time is shown again
            fire = matches and repeat == "both"
        if wall > highest:
            highest = wall
        if fire and at >= first:
            found.append(at)
    return found


def whole_minutes(steps):
    return all(wall.second == 0 for _, wall in steps)


def answer(request):
    with open(request["file"], "rb") as f:
        zone = zoneinfo.ZoneInfo.from_file(f)
    first, last = request["from"], request["to"]
    walks = {}
    results = []
    for case in request["cases"]:
        expression = Expression(case["expr"], case["hash"])
        step = 1 if expression.by_seconds else 60
        if step == 60:
            walks.setdefault(60, list(walk(zone, first, last, 60)))
            if not whole_minutes(walks[60]):  # the offset has seconds
                step = 1
        if step not in walks:
            walks[step] = list(walk(zone, first, last, step))
        results.append(fires(expression, case["gap"], case["repeat"], walks[step], first, step))
    return results


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
