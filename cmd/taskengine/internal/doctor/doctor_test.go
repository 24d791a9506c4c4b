package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/health"
	"github.com/taskengine/taskengine/task"
)

// has fails the test unless there is a finding of a severity and a check that says a text.
func (f Findings) has(t *testing.T, s Severity, check, text string) {
	t.Helper()
	if !slices.ContainsFunc(f, func(f Finding) bool {
		return f.Severity == s && f.Check == check && strings.Contains(f.What, text) && (s == Info || f.Why != "" && f.Do != "")
	}) {
		t.Errorf("there is no %s of %s that says %q:\n%v", s, check, text, f)
	}
}

// no fails the test if there is a finding that is no info.
func (f Findings) no(t *testing.T) {
	t.Helper()
	for _, one := range f {
		if one.Severity != Info {
			t.Errorf("there is a finding: %v", one)
		}
	}
}

func TestTheDoctorExplainsWhatIsWrongWithADatabase(t *testing.T) {
	now := time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)
	well := func() *health.Report {
		return &health.Report{
			Server: 170002, Schema: 3, Want: 3, Sees: true, Now: now, SkewWithin: time.Millisecond, Connections: 5,
			Settings: map[string]string{
				"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "default_transaction_isolation": "read committed",
				"max_connections": "100", "autovacuum": "on", "track_counts": "on",
			},
			Nodes:   []health.Node{{Name: "alice", JoinedAt: now.Add(-time.Hour)}},
			Clocks:  []health.Clock{{Name: "alice", Ahead: -2 * time.Second}},
			Rows:    health.Rows{Live: 10, Ready: 5, Running: 2, OldestReady: now.Add(-time.Minute), OldestReadyType: "mail", Newest: now},
			Tables:  []health.Table{{Name: "task", Valid: true, Live: 10}, {Name: "task_ready", Index: true, Valid: true, Bytes: 8192, Live: 10}},
			Holders: []health.Holder{{Kind: "session", Name: "app", PID: 7, Since: now.Add(-time.Second), Age: 10}},
			Idle:    []health.Session{{PID: 7, Since: now.Add(-time.Second), Held: true}, {PID: 8, Since: now.Add(-time.Hour)}},
		}
	}
	var none Findings
	judgeDatabase(&none, well())
	none.no(t)

	for _, c := range []struct {
		spoil    func(h *health.Report)
		severity Severity
		check    string
		text     string
	}{
		{func(h *health.Report) { h.Schema = 2 }, Warning, "schema", "this program makes 3"},
		{func(h *health.Report) { h.Schema = 4 }, Warning, "schema", "this program knows 3"},
		{func(h *health.Report) { h.Settings["fsync"] = "off" }, Error, "settings", "fsync is off"},
		{func(h *health.Report) { h.Settings["full_page_writes"] = "off" }, Error, "settings", "full_page_writes is off"},
		{func(h *health.Report) { h.Settings["synchronous_commit"] = "off" }, Error, "settings", "synchronous_commit is off"},
		{func(h *health.Report) { h.Settings["autovacuum"] = "off" }, Error, "settings", "autovacuum is off"},
		{func(h *health.Report) { h.Settings["default_transaction_isolation"] = "serializable" }, Error, "settings", "serializable"},
		{func(h *health.Report) { h.Connections = 95 }, Warning, "connections", "95 of 100"},
		{func(h *health.Report) { h.Skew = -3 * time.Second }, Warning, "clock", "this machine is off that of the database by 3s, give or take 1ms"},
		{func(h *health.Report) { h.Rows.Newest = now.Add(time.Minute) }, Warning, "clock", "1m0s after now"},
		{func(h *health.Report) { h.Clocks[0].Ahead = 2 * time.Second }, Warning, "clock", "the clock of the node alice is ahead of that of the database by 2s"},
		{func(h *health.Report) { h.Clocks[0].Ahead = -time.Minute }, Warning, "clock", "the clock of the node alice is behind that of the database by up to 1m0s"},
		{func(h *health.Report) {}, Info, "clock", "the clock of the node alice is at most 2s behind"},
		{func(h *health.Report) { h.Clocks[0].Ahead = 3 * time.Millisecond }, Info, "clock", "the clock of the node alice is about 3ms ahead"},
		{func(h *health.Report) { h.Rows.Errors = 3 }, Warning, "errors", "3 tasks"},
		{func(h *health.Report) {
			h.Counts = []health.Count{{State: task.Submitted, Type: "mail", Counted: 7, There: 8}, {State: task.Error, Type: "mail", Counted: 1}}
		}, Warning, "counts", `2 counts of tasks are wrong: 8 tasks of the type "mail" are submitted, and the count is 7`},
		{func(h *health.Report) { h.Rows.Orphans, h.Rows.OrphansSince = 4, now.Add(-time.Hour) }, Error, "orphans", "4 tasks run on nodes that are not alive, for up to 1h0m"},
		{func(h *health.Report) { h.Rows.Orphans, h.Nodes = 4, nil }, Info, "orphans", "4 tasks"},
		{func(h *health.Report) { h.Rows.LateWaiting, h.Rows.LateWaitingSince = 5, now.Add(-time.Hour) }, Error, "due", "5 tasks are due"},
		{func(h *health.Report) { h.Rows.LateReady = 6 }, Warning, "expired", "6 tasks"},
		{func(h *health.Report) { h.Rows.LateRunning = 7 }, Warning, "overdue", "7 tasks run though they expired more than 1m"},
		{func(h *health.Report) { h.Tables[0].Dead, h.Tables[0].Live = 200_000, 150_000 }, Warning, "bloat", "200000 dead rows and 150000 others, and was vacuumed never"},
		{func(h *health.Report) { h.Tables[1].Bytes = 1 << 30 }, Warning, "bloat", "task_ready has 1024 MiB for 10 entries"},
		{func(h *health.Report) { h.Tables[1].Valid = false }, Error, "bloat", "task_ready is not valid"},
		{func(h *health.Report) { h.Over = []string{"ended_3600_0"} }, Warning, "retention", "ended_3600_0"},
		{func(h *health.Report) { h.Apart = []string{"ended_3600_0"} }, Warning, "partitions", "ended_3600_0"},
		{func(h *health.Report) { h.Sees = false }, Warning, "vacuum", "does not see"},
		{func(h *health.Report) { h.Holders[0].Since = now.Add(-10 * time.Minute) }, Warning, "vacuum", "the session 7 (app) has kept dead rows from being removed for 10 transactions and 10m0s"},
		{func(h *health.Report) { h.Holders[0].Since = now.Add(-2 * time.Hour) }, Error, "vacuum", "the session 7"},
		{func(h *health.Report) {
			h.Holders[0] = health.Holder{Kind: "replication slot", Name: "old, which nobody uses", Age: 20_000_000}
		}, Error, "vacuum", "a replication slot (old, which nobody uses)"},
		{func(h *health.Report) {
			h.Blockers = []storage.Blocker{{PID: 8, Application: "shop", State: "idle in transaction", Since: now.Add(-3 * time.Second)}, {PID: 9, Since: now.Add(-time.Second)}}
		}, Warning, "locks", "the session 8 (shop, idle in transaction, in its transaction since 2024-03-01T11:59:57Z) keeps rows or tables locked that nodes need"},
		{func(h *health.Report) { h.Idle[0].Since = now.Add(-2 * time.Minute) }, Warning, "idle", "the session 7"},
	} {
		h := well()
		c.spoil(h)
		var found Findings
		judgeDatabase(&found, h)
		found.has(t, c.severity, c.check, c.text)
		if bad := slices.DeleteFunc(found, func(f Finding) bool { return f.Severity == Info }); c.severity != Info && len(bad) != 1 {
			t.Errorf("with %q there are %d Findings: %v", c.text, len(bad), bad)
		}
	}
}

func TestTheDoctorExplainsWhatIsWrongWithFiles(t *testing.T) {
	now := time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)
	rows := survey{now: now, counts: map[storage.StateType]int64{{State: task.Processing, Type: "a"}: 2}}
	for _, one := range []*task.Task{
		{State: task.Waiting, NextEventAt: now.Add(-time.Hour)},
		{State: task.Waiting, NextEventAt: now.Add(-time.Second)},
		{State: task.Submitted, NextEventAt: now.Add(-time.Hour), ReadyAt: now.Add(-2 * time.Hour), Type: "slow"},
		{State: task.Submitted, ReadyAt: now.Add(-time.Hour)},
		{State: task.Error, UpdatedAt: now.Add(time.Hour)},
	} {
		rows.see(one)
	}
	rows.pastKeep = 3
	f := files{free: 1 << 29, total: 1 << 40, size: 5 << 30, rows: rows}
	var found Findings
	judgeFiles(&found, &f)
	found.has(t, Warning, "disk", "512 MiB")
	found.has(t, Info, "running", "2 tasks")
	found.has(t, Info, "due", "1 tasks")
	found.has(t, Info, "expired", "1 tasks")
	found.has(t, Info, "oldest", `for 2h0m: 00000000-0000-0000-0000-000000000000, of the type "slow"`)
	found.has(t, Warning, "clock", "1 tasks")
	found.has(t, Info, "retention", "3 tasks")
	f.free = 1000
	found = nil
	judgeFiles(&found, &f)
	found.has(t, Error, "disk", fmt.Sprint(1000))
}
