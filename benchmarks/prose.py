"""Short texts of a made-up company: varied enough that no two say the same, so that embedding them is honest work."""

from __future__ import annotations

from random import Random


def _words(text: str) -> list[str]:
    return text.split()


_PARTS = _words("""
billing invoicing ledger payroll pricing catalogue checkout basket search ranking login session token
gateway router proxy cache queue worker scheduler importer exporter parser planner dispatcher courier warehouse picking
packing returns refund claim policy quote contract tariff meter reading outage grid battery charger turbine sensor
telemetry dashboard report archive backup restore migration schema index replica shard partition consent privacy audit
retention mailbox notification calendar booking roster shift timesheet allowance expense supplier tender order shipment
customs manifest container berth vessel pilot crane yard gate weighbridge invoice-matching onboarding directory badge
visitor lift ventilation boiler pump valve pipeline compressor furnace kiln press mould robot camera scanner label
printer firmware bootloader driver kernel simulator forecast demand stock reorder discount voucher loyalty referral
survey complaint escalation handover incident postmortem runbook certificate keystore vault secret firewall tunnel
""")
_KINDS = _words("service adapter module job page form screen endpoint table view feed contract client library process")
_QUALITIES = _words("""
nightly daily weekly hourly regional legacy new shared internal external partner mobile public
staged partial manual automatic scheduled delayed duplicated encrypted archived read-only experimental temporary
""")
_VERBS = _words("""
rejects drops repeats delays truncates rounds misreads overwrites skips locks retries reorders
exposes hides caches expires validates merges splits forwards imports exports reconciles compresses rotates publishes
""")
_OBJECTS = _words("""
records rows amounts dates addresses identifiers attachments totals headers certificates events
batches snapshots currencies time-zones permissions signatures references translations thresholds measurements
coordinates
""")
_CAUSES = """after the switch to summer time|when two clerks save at once|if the supplier sends an empty file|since the
move to the new data centre|as soon as the queue holds more than {n} messages|whenever a customer has more than {n}
contracts|during the month-end close|while the replica is behind by {n} seconds|because the lookup ignores upper case|
for orders above {n} euro|when the partner answers with a delay of {n} ms|on the first run after a deployment|if the
field is left blank|once the token is older than {n} minutes|for accounts opened before the merger"""
_STEPS = """Check the log of the {a} first|Ask the team of the {a} for the limits|Compare with the {b} of last
quarter|Raise the limit to {n} and measure again|Write a test that fails without the change|Keep the old {b} until the
audit is over|Tell the partner {n} days ahead|Switch the {a} to the second line|Move the {b} behind a flag|Agree with
finance on how the {a} rounds|Replay the {b} of the last {n} hours|Read the contract before you touch the {a}"""
_WHYS = """The numbers in the {a} no longer add up|Two customers complained about the {b}|An auditor asked who may see
the {a}|The {b} costs {n} euro a day|Nobody knows how the {a} decides|Support spends {n} hours a week on the {b}|The
vendor of the {a} ends its support|A rehearsal showed that the {b} can't be restored|The forecast needs the {a} by
seven|The {b} blocks the release"""
_CAUSE_LIST, _STEP_LIST, _WHY_LIST = (
    [line.strip() for line in x.replace("\n", " ").split("|")] for x in (_CAUSES, _STEPS, _WHYS)
)


class Prose:
    """Texts drawn from one random source; the same source gives the same texts."""

    def __init__(self, source: Random) -> None:
        self._r = source

    def thing(self) -> str:
        """A thing of the company, such as `nightly tariff importer`."""
        r = self._r
        return f"{r.choice(_QUALITIES)} {r.choice(_PARTS)} {r.choice(_KINDS)}"

    def name(self) -> str:
        """A short name, such as `tariff-importer`."""
        return f"{self._r.choice(_PARTS)}-{self._r.choice(_KINDS)}"

    def title(self) -> str:
        """A line that could head a work item or a page."""
        r = self._r
        head = f"{r.choice(_PARTS).capitalize()} {r.choice(_KINDS)} {r.choice(_VERBS)} {r.choice(_OBJECTS)}"
        return f"{head} {self._fill(r.choice(_CAUSE_LIST))}" if r.random() < 0.5 else head

    def sentence(self) -> str:
        """One sentence."""
        r = self._r
        match r.randrange(3):
            case 0:
                text = f"The {self.thing()} {r.choice(_VERBS)} {r.choice(_OBJECTS)} {r.choice(_CAUSE_LIST)}"
            case 1:
                text = r.choice(_STEP_LIST)
            case _:
                text = f"{r.choice(_WHY_LIST)} {r.choice(_CAUSE_LIST)}"
        return self._fill(text) + "."

    def paragraph(self, least: int = 2, most: int = 5) -> str:
        """A few sentences."""
        return " ".join(self.sentence() for _ in range(self._r.randint(least, most)))

    def page(self) -> str:
        """A wiki page in Markdown: an opening, sections, a list or a table here and there."""
        r = self._r
        blocks = [self.paragraph()]
        for _ in range(r.randint(2, 5)):
            blocks += [f"## {self.title()}", self.paragraph(2, 6)]
            if r.random() < 0.3:
                blocks.append("\n".join(f"- {self.sentence()}" for _ in range(r.randint(2, 5))))
            elif r.random() < 0.2:
                rows = "\n".join(f"| {self.name()} | {r.randint(2, 900)} | {r.choice(_OBJECTS)} |" for _ in range(4))
                blocks.append(f"| part | limit | of |\n| --- | --- | --- |\n{rows}")
        return "\n\n".join(blocks) + "\n"

    def code(self, language: str) -> str:
        """A source file."""
        r = self._r
        made = []
        for _ in range(r.randint(2, 6)):
            verb, part, obj = (r.choice(x).replace("-", "_") for x in (_VERBS, _PARTS, _OBJECTS))
            name, limit = f"{verb}_{part}_{obj}", r.randint(2, 900)
            match language:
                case "py":
                    made.append(
                        f"def {name}({obj}: list[str], limit: int = {limit}) -> list[str]:\n"
                        f'    """{self.sentence()}"""\n'
                        f"    kept = []\n    for one in {obj}:\n        # {self.sentence()}\n"
                        f'        if len(one) > limit:\n            raise ValueError("{self.title()}")\n'
                        f"        kept.append(one.strip())\n    return kept\n"
                    )
                case "sql":
                    made.append(
                        f"-- {self.sentence()}\nCREATE VIEW {part}.{name} AS\nSELECT {obj}, count(*) AS total\n"
                        f"FROM {part}.{r.choice(_OBJECTS).replace('-', '_')}\nWHERE total > {limit}\nGROUP BY {obj};\n"
                    )
                case "ts":
                    made.append(
                        f"/** {self.sentence()} */\n"
                        f"export function {name}({obj}: string[], limit = {limit}): string[] {{\n"
                        f"  // {self.sentence()}\n  return {obj}.filter((one) => one.length < limit);\n}}\n"
                    )
                case "yaml":
                    made.append(f"{name}:\n  # {self.sentence()}\n  limit: {limit}\n  of: {r.choice(_PARTS)}\n")
                case _:
                    made.append(f"## {self.title()}\n\n{self.paragraph()}\n")
        return "\n\n".join(dict.fromkeys(made))

    def _fill(self, text: str) -> str:
        if "{a}" in text:
            text = text.replace("{a}", self.thing())
        if "{b}" in text:
            text = text.replace("{b}", self.thing())
        while "{n}" in text:
            text = text.replace("{n}", str(self._r.randint(2, 900)), 1)
        return " ".join(text.split())
