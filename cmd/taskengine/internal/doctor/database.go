package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/coord/record"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/health"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// The examination reports values above these limits.
const (
	maxSkew      = time.Second      // between clocks
	maxSkewBeat  = 10 * time.Second // likewise, of a node that is behind: its heartbeat may have waited
	maxHeld      = 5 * time.Minute  // that dead rows are kept from being removed
	maxHeldError = time.Hour
	maxHeldAge   = 10_000_000 // likewise, in transactions
	maxIdle      = time.Minute
	maxDead      = 100_000 // dead rows, if they are also more than those alive
	maxPerEntry  = 500     // bytes of an index for each of its entries
	minBloated   = 64 << 20
)

// judgeDatabase reports the state of a database.
func judgeDatabase(found *Findings, h *health.Report) {
	found.info("server", "PostgreSQL %d.%d, %d of %s connections", h.Server/10000, h.Server%10000, h.Connections, h.Settings["max_connections"])
	judgeSchema(found, h)
	judgeSettings(found, h)
	judgeClocks(found, h)
	judgeNodes(found, h)
	judgeLive(found, h)
	judgeCounts(found, h)
	judgeTables(found, h)
	judgeEnded(found, h)
	judgeHolders(found, h)
	judgeIdle(found, h)
	judgeBlockers(found, h)
}

func judgeSchema(found *Findings, h *health.Report) {
	switch {
	case h.Schema == h.Want:
		found.info("schema", "version %d, as this program makes it", h.Schema)
	case h.Schema < h.Want:
		found.add(Warning, "schema", fmt.Sprintf("it is at version %d, and this program makes %d", h.Schema, h.Want),
			"the next version of the program may not work with it", "run `taskengine migrate apply`")
	default:
		found.add(Warning, "schema", fmt.Sprintf("it is at version %d, and this program knows %d", h.Schema, h.Want),
			"some other program is newer", "replace this one on all machines")
	}
}

// examineTables compares the tables with the result of the migrations, if the role is allowed to.
func examineTables(ctx context.Context, found *Findings, p stores.Location, h *health.Report) {
	if h.Schema > h.Want {
		return // this program does not know those migrations
	}
	differences, err := schema.Verify(ctx, p.URL, p.Schema)
	if err != nil {
		found.info("tables", "they could not be compared with the result of the migrations: %s", database.OneLine(err))
		return
	}
	for _, d := range differences {
		found.add(Warning, "tables", d.String(), "it was changed by hand; without an index every query reads whole tables",
			"make it as it should be, see `taskengine migrate verify` and `taskengine migrate sql`")
	}
}

// judgeHome reports the shards of a database that is one of several.
func judgeHome(found *Findings, home storage.Holdings) {
	if home.Owned != task.AllShards() {
		found.info("shards", "it holds the shards %s of 0-%d", cmp.Or(home.Owned.String(), "none"), task.ShardCount-1)
	}
	if !home.Migrating.IsEmpty() {
		found.add(Error, "shards", fmt.Sprintf("the shards %s are on their way to %s", &home.Migrating, home.To),
			"their tasks stand still, and new ones are refused, until they have arrived", "if no `taskengine shards move` is under way, run it again")
	}
}

func judgeSettings(found *Findings, h *health.Report) {
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if h.Settings[name] == "off" {
			found.add(Error, "settings", name+" is off", "tasks that were accepted can be lost, or the database damaged, when the server crashes", "turn it on")
		}
	}
	if level := h.Settings["default_transaction_isolation"]; level != "read committed" {
		found.add(Error, "settings", "default_transaction_isolation is "+level,
			"the agreement of nodes needs read committed", "reset it for the role and the database of the nodes")
	}
	for _, name := range []string{"autovacuum", "track_counts"} {
		if h.Settings[name] == "off" {
			found.add(Error, "settings", name+" is off", "dead rows are never removed: the tables grow, and finding the next task takes longer and longer", "turn it on")
		}
	}
	if most, err := strconv.Atoi(h.Settings["max_connections"]); err == nil && h.Connections*10 > most*9 {
		found.add(Warning, "connections", fmt.Sprintf("%d of %d connections are taken", h.Connections, most),
			"a node that finds none cannot start, nor go on after an outage", "raise max_connections, lower pool_max_conns in the URLs of the nodes, or use PgBouncer")
	}
}

func judgeClocks(found *Findings, h *health.Report) {
	off := h.Skew.Abs() - h.SkewWithin
	if off > maxSkew {
		judgeClock(found, fmt.Sprintf("the clock of this machine is off that of the database by %s, give or take %s", units.Span(h.Skew.Abs()), units.Span(h.SkewWithin)))
	} else {
		found.info("clock", "this machine and the database agree within %s", units.Span(h.Skew.Abs()+h.SkewWithin))
	}
	if ahead := h.Rows.Newest.Sub(h.Now); ahead > maxSkew {
		found.add(Warning, "clock", fmt.Sprintf("a node has changed a task %s after now, by the clock of the database", units.Span(ahead)),
			"the clock of the database was ahead then and was set back, or a node of an earlier version works on it, by its own clock, and the clock of its machine is ahead",
			"have the clocks of all machines set by NTP, and replace nodes of earlier versions")
	}
	for _, n := range h.Clocks {
		switch {
		case n.Ahead > maxSkew:
			judgeClock(found, fmt.Sprintf("the clock of the node %s is ahead of that of the database by %s, or was until lately", n.Name, units.Span(n.Ahead)))
		case -n.Ahead > maxSkewBeat:
			judgeClock(found, fmt.Sprintf("the clock of the node %s is behind that of the database by up to %s", n.Name, units.Span(-n.Ahead)))
		case n.Ahead >= 0:
			found.info("clock", "the clock of the node %s is about %s ahead of that of the database; `/readyz?verbose` of the node has the exact difference", n.Name, units.Span(n.Ahead))
		default:
			found.info("clock", "the clock of the node %s is at most %s behind that of the database; `/readyz?verbose` of the node has the exact difference", n.Name, units.Span(-n.Ahead))
		}
	}
}

// judgeClock reports that the clock of a machine differs from that of the database.
func judgeClock(found *Findings, what string) {
	found.add(Warning, "clock", what,
		"nodes start tasks by the clock of the database, neither early nor late; but the times in logs are off, and so are the times that programs on this machine reckon from its clock",
		"have the clocks of all machines, and that of the database, set by NTP")
}

func judgeNodes(found *Findings, h *health.Report) {
	var alive, dead []string
	for _, n := range h.Nodes {
		if n.DiedAt.IsZero() {
			alive = append(alive, fmt.Sprintf("%s, for %s", n.Name, ago(h.Now, n.JoinedAt)))
		} else {
			dead = append(dead, fmt.Sprintf("%s, %s ago", n.Name, ago(h.Now, n.DiedAt)))
		}
	}
	switch {
	case h.Others > 0:
		found.info("nodes", "%d use the database and coordinate elsewhere", h.Others)
	case len(alive) == 0:
		found.info("nodes", "none is alive")
	}
	if len(alive) > 0 {
		found.info("nodes", "alive: %s", strings.Join(alive, "; "))
	}
	if len(dead) > 0 {
		found.info("nodes", "died within the last hour: %s", strings.Join(dead, "; "))
	}
}

// examineCoordination reports how the nodes of a database coordinate. Nodes that do so elsewhere are
// not seen in it.
func examineCoordination(ctx context.Context, found *Findings, db *postgres.Store) error {
	recorded, isRecorded, err := record.Read(ctx, db)
	switch {
	case err != nil:
		return err
	case isRecorded:
		found.info("coordination", "nodes coordinate by (%v)", recorded)
	default:
		found.info("coordination", "not recorded: the next node that starts records how it coordinates")
	}
	return nil
}

// anyAlive reports whether a node is alive.
func anyAlive(h *health.Report) bool {
	return h.Others > 0 || slices.ContainsFunc(h.Nodes, func(n health.Node) bool { return n.DiedAt.IsZero() })
}

// judgeLive reports tasks that have not ended. They are not stuck if no node is alive.
func judgeLive(found *Findings, h *health.Report) {
	r := &h.Rows
	found.info("tasks", "%d have not ended: %d of them are ready and %d run", r.Live, r.Ready, r.Running)
	if r.Behind > 0 {
		found.info("behind", "%d tasks wait behind others of their ordering key", r.Behind)
	}
	judgeErrors(found, r.Errors)
	if r.Ready > 0 {
		found.info("oldest", "the task that has been ready for longest has been so for %s, of the type %q", ago(h.Now, r.OldestReady), r.OldestReadyType)
	}
	stuck := Info
	if anyAlive(h) {
		stuck = Error
	}
	if r.Orphans > 0 && h.Others == 0 { // nodes that coordinate elsewhere may run them
		found.add(stuck, "orphans", fmt.Sprintf("%d tasks run on nodes that are not alive, for up to %s", r.Orphans, ago(h.Now, r.OrphansSince)),
			"they do not run really; the nodes that are alive should have recovered them within seconds, if there are any",
			"start a node; if there is one, look at its log for errors of the role `healer`")
	}
	if r.LateWaiting > 0 {
		found.add(stuck, "due", fmt.Sprintf("%d tasks are due and still wait, for up to %s", r.LateWaiting, ago(h.Now, r.LateWaitingSince)),
			"no node makes them ready", "start a node; if there is one, look at its log")
	}
	if r.LateReady > 0 {
		found.add(milder(stuck), "expired", fmt.Sprintf("%d tasks have not begun in time and still wait", r.LateReady),
			"they should have become errors", "start a node; if there is one, look at its log")
	}
	if r.LateRunning > 0 {
		found.add(Warning, "overdue", fmt.Sprintf("%d tasks run though they expired more than %s ago", r.LateRunning, units.Span(health.Late)),
			"their handlers were asked to stop and have not returned, or their nodes cannot save the outcome",
			"see `taskengine task list --state processing`, and the logs of those tasks and of their nodes")
	}
}

// judgeCounts reports counters that differ from the rows: dashboards and monitors read them.
func judgeCounts(found *Findings, h *health.Report) {
	if len(h.Counts) == 0 {
		return
	}
	c := h.Counts[0]
	found.add(Warning, "counts", fmt.Sprintf("%d counts of tasks are wrong: %d tasks of the type %q are %v, and the count is %d", len(h.Counts), c.There, c.Type, c.State, c.Counted),
		"tables were changed with their triggers off, or the table tally was changed", "run `select taskengine.recount()` in the database, with the name of its schema: it reads all tasks, and delays no other work")
}

// milder returns s, or a warning for an error.
func milder(s Severity) Severity {
	if s == Error {
		return Warning
	}
	return s
}

func judgeTables(found *Findings, h *health.Report) {
	for _, t := range h.Tables {
		switch {
		case t.Index && !t.Valid:
			found.add(Error, "bloat", fmt.Sprintf("the index %s is not valid", t.Name), "it is not used, and finding the next task reads the whole table",
				fmt.Sprintf("reindex index concurrently %s", t.Name))
		case t.Index && t.Bytes > minBloated && t.Live > 0 && t.Bytes/t.Live > maxPerEntry:
			found.add(Warning, "bloat", fmt.Sprintf("the index %s has %s for %d entries", t.Name, units.WholeBytes(t.Bytes), t.Live),
				"a mostly empty index costs memory and time", fmt.Sprintf("reindex index concurrently %s, once nothing holds back vacuum", t.Name))
		case !t.Index && t.Dead > maxDead && t.Dead > t.Live:
			found.add(Warning, "bloat", fmt.Sprintf("the table %s has %d dead rows and %d others, and was vacuumed %s", t.Name, t.Dead, t.Live, vacuumed(h, t)),
				"each index entry of a dead row is read in vain: grabs take longer",
				"find the cause that holds back vacuum; then see whether autovacuum keeps up, or run vacuum by hand")
		case !t.Index:
			found.info("bloat", "the table %s has %s, %d rows and %d dead ones, and was vacuumed %s", t.Name, units.WholeBytes(t.Bytes), t.Live, t.Dead, vacuumed(h, t))
		}
	}
}

func vacuumed(h *health.Report, t health.Table) string {
	if t.Vacuumed.IsZero() {
		return "never"
	}
	return ago(h.Now, t.Vacuumed) + " ago"
}

func judgeEnded(found *Findings, h *health.Report) {
	found.info("ended", "tasks that have ended take %s", units.WholeBytes(h.Ended))
	if len(h.Over) > 0 {
		s := Info
		if anyAlive(h) {
			s = Warning
		}
		found.add(s, "retention", fmt.Sprintf("tables of tasks beyond their retention: %s", strings.Join(h.Over, ", ")),
			"they should have been dropped within the hour", "start a node; if there is one, look at its log for errors of the role `cleaner`")
	}
	if len(h.Apart) > 0 {
		found.add(Warning, "partitions", fmt.Sprintf("tables that are no part of the table ended: %s", strings.Join(h.Apart, ", ")),
			"the tasks in them are not found; a cleaner was interrupted, and its next round drops them, or they were detached by hand",
			"look at this again in an hour; then attach them, insert their rows into the table ended if another one has taken the place of theirs, or drop them")
	}
}

func judgeHolders(found *Findings, h *health.Report) {
	if !h.Sees {
		found.add(Warning, "vacuum", "this role does not see the activity of other roles' sessions",
			"causes that hold back vacuum may be missing here", "grant pg_read_all_stats to it, or examine as another role")
	}
	for _, o := range h.Holders {
		held := h.Now.Sub(o.Since)
		if o.Since.IsZero() {
			held = 0 // unknown
		}
		if held < maxHeld && o.Age < maxHeldAge {
			continue
		}
		s := Warning
		if held > maxHeldError || o.Age >= maxHeldAge {
			s = Error
		}
		who, do := fmt.Sprintf("a %s (%s)", o.Kind, o.Name), "end it"
		switch o.Kind {
		case "session":
			who, do = fmt.Sprintf("the session %d (%s)", o.PID, o.Name), fmt.Sprintf("have its program end the transaction, or select pg_terminate_backend(%d)", o.PID)
		case "replication slot":
			do = "use it again, or drop it"
		case "prepared transaction":
			do = "commit prepared or rollback prepared"
		case "standby":
			do = "end the long query there, or turn hot_standby_feedback off"
		}
		what := fmt.Sprintf("%s has kept dead rows from being removed for %d transactions", who, o.Age)
		if held > 0 {
			what += " and " + units.Span(held)
		}
		found.add(s, "vacuum", what, "every grab reads past the dead rows that accumulate, and the tables grow", do)
	}
}

// shortLock is how long the transactions of programs may keep locks.
const shortLock = 2 * time.Second

func judgeBlockers(found *Findings, h *health.Report) {
	for _, b := range h.Blockers {
		if !b.Since.IsZero() && h.Now.Sub(b.Since) < shortLock {
			continue
		}
		found.add(Warning, "locks", fmt.Sprintf("the %s keeps rows or tables locked that nodes need", b),
			"tasks and requests that need them wait", fmt.Sprintf("have its program end the transaction, or select pg_terminate_backend(%d)", b.PID))
	}
}

func judgeIdle(found *Findings, h *health.Report) {
	for _, i := range h.Idle {
		idle := h.Now.Sub(i.Since)
		// Such a transaction holds back no vacuum: nodes hold locks by them.
		if idle < maxIdle || !i.Held {
			continue
		}
		found.add(Warning, "idle", fmt.Sprintf("the session %d (%s %s) has been idle in a transaction for %s", i.PID, i.User, i.Application, units.Span(idle)),
			"it holds locks and may hold back vacuum", fmt.Sprintf("mend its program, set idle_in_transaction_session_timeout, or select pg_terminate_backend(%d)", i.PID))
	}
}
