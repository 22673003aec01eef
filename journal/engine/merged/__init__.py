"""
Merged journals: many that share one sequence of generations, each as if it were alone.

May import every other package of the engine; none of them imports it but the spine.
"""
