"""The siege: one hostile organization beside an honest one, both with keys of a real `neve serve`.

`house` configures and starts the service, `honest` sends, asks and measures, `hostile` attacks from a process of its
own, `siege` runs the phases, `verdict` judges. `plan`, `messages` and `verdict` are pure.
"""
