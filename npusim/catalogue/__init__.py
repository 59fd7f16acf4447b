"""Will it run? What some 1,100 aclnn APIs and 1,700 operators take on which product, with sources.

The facts are in one file that ships with the package; `npusim.catalogue.build` writes it. Nothing
in here prints, and nothing is read before the first question.
"""
