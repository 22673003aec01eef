"""
A notebook, cell by cell: how much work lies ahead, and how late the last day's work began, from an export.

    pip install 'journal[spark,plots]'
    python examples/spark/load_and_lateness.py        # or cell by cell, in an editor that knows `# %%`

It makes up a day of a journal first, so that there is something to see; with a journal of your own begin at the second cell.
"""

# %% A day of work, made up: pages to rebuild, most of them at once, with a rush at nine, and a backend that is away from one to two
import random
from datetime import UTC, datetime
from pathlib import Path

import journal
from journal.testing import ManualClock

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
STORE, REPORT = Path("site.journal").absolute(), Path("report").absolute()
morning = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
chance, clock = random.Random(7), ManualClock(morning)

with journal.open(STORE, clock=clock, durability="interval") as store:
    pages = store.journal("pages")
    pages.feed(consumer="report", live=False).close()  # from here on the log is kept for the report
    for minute in range(24 * 60):
        hour = minute / 60
        many = 3 + (25 if 9 <= hour < 10 else 0) + (6 if 7 <= hour < 19 else 0)
        puts = []
        for number in range(many):
            later = chance.choice((0, 0, chance.randrange(36 * HOUR_MS)))
            priority = chance.choice((journal.IMPORTANT, 100, 100, 100, journal.SLOW))
            puts.append(
                journal.Put(
                    f"/{minute}/{number}", {"rank": number}, priority=priority, process_date=clock.now() + later
                )
            )
        pages.put_many(puts)
        if not 13 <= hour < 14:
            pages.done_many(pages.claim_many(24, consumer="backend-1", lease="5m"))
        clock.advance(MINUTE_MS)

# %% The export: entries as they are now, and what has happened since yesterday
import spark_export

spark = spark_export.session(app="report")
manifest = spark_export.export(STORE, "pages", REPORT / "entries", spark=spark)
changes = spark.read.format("journal").option("journal", "pages").option("changes", True).load(str(STORE))
changes.write.mode("overwrite").parquet(str(REPORT / "changes"))
now = datetime.fromtimestamp(morning / 1000 + 24 * 3600, UTC)
print(f"{manifest.rows} entries wait")

# %% The load ahead: what falls due in the next day, by the half hour
from pyspark.sql import functions as f

entries = spark.read.parquet(str(REPORT / "entries"))
kinds = f.when(f.col("priority") < 100, "important").when(f.col("priority") < 200, "usual").otherwise("slow")
half_hour = f.window("process_date", "30 minutes").start
ahead = (
    entries.where(f.col("process_date").between(f.lit(now), f.lit(now) + f.expr("interval 1 day")))
    .groupBy(half_hour.alias("at"), kinds.alias("kind"))
    .count()
    .orderBy("at")
    .collect()
)
overdue = entries.where(f.col("process_date") < f.lit(now)).count()

# %% Lateness: from the moment when an entry was due to the moment when a backend had it, for all claims of the last day; slow work may wait
claims = spark.read.parquet(str(REPORT / "changes")).where("verb = 'claim' and priority < 200")
seconds = f.expr("(unix_millis(timestamp) - unix_millis(process_date)) / 1000")
late = (
    claims.where(f.col("timestamp") >= f.lit(now) - f.expr("interval 1 day"))
    .groupBy(f.window("timestamp", "30 minutes").start.alias("at"))
    .agg(
        f.percentile(seconds, 0.5).alias("half"),
        f.percentile(seconds, 0.95).alias("most"),
        f.max(seconds).alias("worst"),
    )
    .orderBy("at")
    .collect()
)
print(f"{sum(row.worst > 600 for row in late)} half hours had work that began more than ten minutes late")

# %% Both, as a picture
import matplotlib

matplotlib.use("Agg")
from matplotlib import dates
from matplotlib import pyplot as plt

figure, (above, below) = plt.subplots(2, 1, figsize=(10, 7), layout="constrained")
times = sorted({row["at"].replace(tzinfo=UTC) for row in ahead})
bottom = dict.fromkeys(times, 0)
for kind, colour in (("important", "#c0392b"), ("usual", "#2e6da4"), ("slow", "#b8c4d0")):
    heights = {row["at"].replace(tzinfo=UTC): row["count"] for row in ahead if row.kind == kind}
    values = [heights.get(time, 0) for time in times]
    above.bar(
        times, values, width=1 / 48, align="edge", bottom=[bottom[time] for time in times], label=kind, color=colour
    )
    bottom = {time: bottom[time] + value for time, value in zip(times, values, strict=True)}
above.set_title(f"Load ahead of {now:%Y-%m-%d %H:%M} UTC, beside {overdue} that are due already")
above.set_ylabel("entries due, by the half hour")
above.legend(frameon=False)

when = [row["at"].replace(tzinfo=UTC) for row in late]
below.fill_between(when, [row.most / 60 for row in late], step="post", color="#2e6da4", alpha=0.25, label="95 of 100")
below.step(when, [row.half / 60 for row in late], where="post", color="#2e6da4", label="half")
below.step(when, [row.worst / 60 for row in late], where="post", color="#c0392b", linewidth=0.8, label="worst")
below.set_title("Lateness of the day before, but for slow work")
below.set_ylabel("minutes from due to begun")
below.set_ylim(bottom=0)
below.legend(frameon=False)
for panel in (above, below):
    panel.xaxis.set_major_formatter(dates.DateFormatter("%H:%M", tz=UTC))
    panel.xaxis.set_major_locator(dates.HourLocator(byhour=range(0, 24, 3), tz=UTC))
    panel.margins(x=0)
    panel.spines[["top", "right"]].set_visible(False)
figure.savefig(REPORT / "load_and_lateness.png", dpi=120)
plt.close(figure)
print("report/load_and_lateness.png")
