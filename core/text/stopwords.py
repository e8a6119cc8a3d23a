"""Words that say nothing about a topic, English and Dutch.

Dutch words that are English content words (door, van, men, die) are left out: document frequencies make
common ones light anyway.
"""

from __future__ import annotations

from typing import Final

_ENGLISH = """
a about above after again against all am an and any are aren as at be because been before being below between both
but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has
hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m me
more most mustn my myself no nor not now of off on once only or other ought our ours ourselves out over own re s same
shan she should shouldn so some such t than that the their theirs them themselves then there these they this those
through to too under until up ve very was wasn we were weren what when where which while who whom why will with won
would wouldn you your yours yourself yourselves
"""

_DUTCH = """
aan al alles als andere ben bij daar dan dat de deze dit doch doen dus een eens en er ge geen geweest haar heb hebben
heeft het hier hij hoe hun iemand iets ik ja je kan kon kunnen maar meer mij mijn moet na naar niet niets nog nu om
omdat onder ons ook reeds te tegen toch toen tot uit uw veel voor waar waarom wanneer
waren wat welk welke wie werd wezen wij wil worden wordt zal
ze zelf zich zij zijn zo zonder zou
"""

STOP_WORDS: Final = frozenset((_ENGLISH + _DUTCH).split())
