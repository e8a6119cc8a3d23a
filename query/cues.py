"""The phrases, English and Dutch, by which a question shows what kind of answer it wants: data for `interpret`.

Patterns are matched on folded text (lower case, no diacritics, straight quotes). The first intent in `INTENTS` of
which a pattern matches is taken, so the narrower kinds stand first.
"""

from __future__ import annotations

import re
from typing import Final

from core.bundle import Intent

_THING = (
    r"(?:dashboard|panel|graph|chart|gauge|widget|tile|value|number|figure|metric|page|wiki|file|script|function|class|"
    r"line|code|query|view|table|item|ticket|task|bug|story|pr|pull request|commit|thread|message|post|channel|"
    r"conversation|screen|document|section|"
    r"grafiek|paneel|waarde|getal|cijfer|meter|pagina|bestand|regel|functie|bericht|kanaal|gesprek|draad|taak|"
    r"scherm|document|tabel)"
)

# "this", "here": words that point at what the asker is looking at.
DEICTIC: Final = re.compile(
    rf"\b(?:this|that|these|those|dit|deze|dat|die)\s+(?:\w+\s+)?{_THING}s?\b"
    r"|\b(?:looking at|here|kijk naar|hier(?:boven|onder)?)\b"
)
# With a focus given, a bare pronoun points at it as well.
DEICTIC_PRONOUN: Final = re.compile(r"\b(?:this|that|these|those|here|dit|deze|dat|hier)\b")

_DEFINITION = (
    r"\bwhat (?:does|do|did) .{1,60}? (?:mean|stand for)\b",
    r"\bwhat .{1,60}? (?:means|stands for)\b",
    r"\b(?:meaning|definition) of\b",
    r"\bstands? for\b",
    r"^\s*(?:please )?(?:define|explain the (?:term|abbreviation|acronym))\b",
    r"\bwhat(?:'s| is) meant by\b|\bmean by\b",
    r"\b(?:abbreviation|acronym)\b.*\?",
    r"\bwat (?:betekent|betekenen|wordt bedoeld met)\b",
    r"\bwaar staat .{1,40} voor\b|\bstaat voor\b",
    r"\b(?:betekenis|definitie) van\b",
    r"\bwat (?:bedoelen|bedoelt) .{1,40}\bmet\b",
    r"\bafkorting\b.*\?",
)

_PERSON = (
    r"\bwho\b(?!\s+(?:is|are) (?:affected|allowed))",
    r"\bwhom\b",
    r"\b(?:which|what) (?:person|colleague|expert|team member)\b|\bwhich of (?:my|our|the) (?:colleagues|people)\b",
    r"\b(?:which|what) team (?:owns?|maintains?|handles?|looks after|is responsible)\b|\bwhose\b",
    r"\b(?:expert|specialist)s? (?:on|in|for|op|voor)\b|\b(?:need|looking for|find) (?:someone|somebody)\b",
    r"\b(?:contact person|point of contact|subject matter expert|go-?to person)\b",
    r"\b(?:anyone|anybody|somebody|someone) (?:here )?(?:who )?(?:knows?|worked|help)",
    r"\bwie\b",
    r"\bcontactpersoon\b|\bwelke collega\b|\bis er iemand\b|\biemand die\b|\bwelk team (?:is|beheert|gaat)\b",
)

_SECURITY = (
    r"\bcve-\d{4}-\d+\b|\bunauthenticated\b|\bpublicly (?:exposed|accessible|reachable)\b|\bhacked\b|\bgehackt\b",
    r"\bpasswords? .{1,40}\b(?:plain|clear) ?text\b",
    r"\b(?:security|vulnerab\w*|exploit\w*|pen-?test\w*|breach\w*|leaked?|attack\w*|hardening|xss|injection)\b",
    r"\b(?:beveilig\w*|veiligheids\w*|kwetsbaar\w*|lek|lekken|gelekt|datalek\w*|inbraak)\b",
)

_HISTORICAL = (
    r"\bwhy (?:did|didn'?t|was|were|wasn'?t|weren'?t|have we|has|had)\b",
    r"\bwhy .{1,80}\b(?:any ?more|no longer)\b|\bhow come (?:we|they)\b",
    r"\bwhat (?:was|were) the (?:reasons?|rationale|motivation)\b|\breasons? (?:behind|we|they)\b",
    r"\bwaarom .{1,80}\bniet (?:meer|langer)\b|\bwat was de reden\b",
    r"\bused to\b",
    r"\b(?:history|historically|origin|originally|formerly|previously|back then|at the time|in the past)\b",
    r"\bwhen (?:did|was|were)\b",
    r"\bhow (?:did|was|were) .{1,80}\b(?:before|then|back|originally|in (?:19|20)\d\d|last (?:year|sprint|quarter))\b",
    r"\bwhat (?:did|was|were) .{1,80}\b(?:before|then|back|originally|in (?:19|20)\d\d|last (?:year|sprint|quarter))\b",
    r"\b(?:vroeger|destijds|toentertijd|oorspronkelijk|voorheen|indertijd|geschiedenis)\b",
    r"\bwaarom (?:is|zijn|was|waren|hebben|heeft|had|werd|werden)\b",
    r"\bwanneer (?:is|zijn|was|waren|hebben|heeft|werd|werden)\b",
    r"\bhoe (?:was|waren|werd|werden|ging|deden)\b",
)

_STATUS = (
    r"\bstatus\b|\bprogress\b|\bhow far\b|\bstate of\b|\bwhere are we\b|\bwhere (?:do|does) .{1,60}\bstand\b",
    r"\bhow(?:'s| is| are) .{1,80}\b(?:going|progressing|coming along)\b|\b(?:on track|on schedule|behind schedule)\b",
    r"\bdid (?:we|they|you) (?:already |yet )?(?:ship|release|finish|fix|deploy|merge|close|start|solve|deliver)\b",
    r"\b(?:is|are) (?:anyone|anybody|someone|somebody|we|they) .{0,20}\bworking on\b|\bwaiting (?:for|on)\b",
    r"\b(?:is|are|has|have) .{1,80}\b(?:done|finished|fixed|solved|resolved|ready|live|merged|released|deployed)\b",
    r"\b(?:is|are|has|have) .{1,80}\b(?:blocked|open|closed|started|being worked on)\b",
    r"\b(?:still|anything) (?:open|blocked|failing|broken|down)\b",
    r"\bwhat(?:'s| is| are) .{0,40}\b(?:going on|happening|left (?:to|on|in|of|for)|open|blocking|outstanding)\b",
    r"\bwhat(?:'s| is| are) .{0,40}\bplanned\b",
    r"\bwhat happened\b|\bany news\b|\blatest on\b",
    r"\bwhen (?:will|do we|can we|is|are)\b",
    r"\b(?:this|current|next|last|previous) sprint\b",
    r"\bstand van zaken\b|\bhoe staat het\b|\bhoe ver\b|\bvoortgang\b|\bvorige sprint\b|\bdeze sprint\b",
    r"\bwaar sta(?:an|at) (?:we|het|de|dit)\b|\bop schema\b|\bwachten (?:we |ze )?(?:nog )?op\b",
    r"\b(?:is|zijn) .{1,80}\b(?:klaar|af|opgelost|gereed|live|gesloten|bezig|geblokkeerd)\b",
    r"\bwanneer (?:gaat|gaan|komt|wordt|worden|kunnen)\b|\bwat speelt\b|\bwat is er (?:gebeurd|mis)\b",
)

_PROCEDURAL = (
    r"\bhow (?:do|can|could|should|must|would|to|does one)\b",
    r"\bwhere (?:do|can|could|should|must) (?:i|we|you|one)\b(?! stand\b)",
    r"\b(?:the|which|what) (?:\w+ )?steps\b|\bprocess (?:for|to)\b|\b(?:best|right|proper|usual|recommended) way to\b",
    r"\bwalk me through\b|\b(?:runbook|playbook|draaiboek)\b|\bi'd like to\b",
    r"\bwhat (?:do|should|must|can) (?:i|we|you|one) (?:need|have|do|use|change)\b",
    r"\bwhat to do\b|\bsteps? (?:to|for)\b|\bprocedure\b|\bguide\b|\bhow-?to\b|\binstructions?\b|\bchecklist\b",
    r"\bi (?:need|want|have|would like|am trying|try) to\b|\bwe (?:need|want|have) to\b",
    r"\bhoe (?:kan|kun|moet|doe|maak|werk|vraag|zet|krijg|sluit|ga|start|lever|los|meld|voer|leg|stel)\b",
    r"\bhoe \w+ (?:ik|je|we)\b",
    r"\bwaar (?:kan|kun|moet|doe|vind|meld|vraag) (?:ik|je|we|men)\b",
    r"\bwat (?:moet|kan|heb) (?:ik|je|we)\b|\bwat te doen\b|\bstappen(?:plan)?\b|\bhandleiding\b|\bwerkwijze\b",
    r"\bik (?:moet|wil|zou)\b|\bwe (?:moeten|willen)\b",
)

INTENTS: Final[tuple[tuple[Intent, tuple[re.Pattern[str], ...]], ...]] = tuple(
    (intent, tuple(re.compile(p) for p in patterns))
    for intent, patterns in (
        (Intent.DEFINITION, _DEFINITION),
        (Intent.PERSON, _PERSON),
        (Intent.HISTORICAL, _HISTORICAL),
        (Intent.DEICTIC, ()),
        (Intent.SECURITY, _SECURITY),
        (Intent.PROCEDURAL, _PROCEDURAL),
        (Intent.STATUS, _STATUS),
    )
)

# "what is X?", "wat is X?": a definition only where X is a term (an abbreviation, or one known to the asker).
SHORT_WHAT: Final = re.compile(
    r"^\W*(?:(?:and|so|hey|hi|hello|please|en|dus)\W+)*(?:what(?:'s| is| are)|whats|wat (?:is|zijn)|wat's)\s+"
    r"(?:an? |the |een |de |het |our |onze |ons )?(?P<term>[^?!]{1,60}?)\s*"
    r"(?:\bagain\b|\bhere\b|\bprecies\b|\bhier\b)?\s*[?!.]*\s*$"
)

# A word and no more, or a word and "what's that": a definition only where the asker knows it as a term.
BARE_TERM: Final = re.compile(
    r"^\W*(?:(?:please )?explain |leg )?(?P<term>[^?!,:]{1,60}?)(?: uit)?"
    r"(?:\s*[-–—,:?]+\s*(?:what(?:'s| is) (?:that|it)|wat is (?:dat|het)))?\s*[?!.]*\s*$"
)

# Words that make a question one about the present whatever else it says.
PRESENT: Final = re.compile(
    r"\b(?:now|nowadays|currently|today|at the moment|these days|still|nu|momenteel|tegenwoordig|vandaag|"
    r"op dit moment|nog steeds)\b"
)

# Words that only one of the two languages has (function words), for telling them apart.
DUTCH_WORDS_WORDS = """
de het een en van ik je wij hij zij niet wat hoe waar wie wanneer waarom welke deze dit dat voor met op aan
bij naar uit om moet moeten kan kunnen wordt worden zijn heb hebben heeft ons onze mijn nog ook maar te er
geen als dan wel gaat staat betekent
"""
DUTCH_WORDS = frozenset(DUTCH_WORDS_WORDS.split())
ENGLISH_WORDS_WORDS = """
the a an and of i you we they not what how where who when why which this that these for with on at by to from
must should can could does do did is are was were have has our my still also but there no if then it be will
mean means
"""
ENGLISH_WORDS = frozenset(ENGLISH_WORDS_WORDS.split())

# Words that steer but are no subject: never read as typos, never used to test a literal.
CUE_WORDS_WORDS = """
what where which who whom whose when why how does mean stands stand definition meaning explain define steps
procedure status progress history originally previously currently dashboard graph panel abbreviation betekent
betekenis waarom wanneer afkorting stappen grafiek
"""
CUE_WORDS = frozenset(CUE_WORDS_WORDS.split())
