package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// everyTable shows each table of the commands that ask a node, with values that are as long as they can be, or wide.
func everyTable() map[string]func(a *app) error {
	const most = 1 << 31
	long, now := strings.Repeat("a-long-name-", 20), timestamppb.Now()
	later, span, lag := timestamppb.New(time.Now().Add(10_000*time.Hour)), durationpb.New(1000*time.Hour), uint64(most)
	one := &taskenginev1.Task{
		Id: anID, Type: long, State: "waiting", Key: long, Version: 1 << 62, Attempt: most, CreatedAt: timestamppb.New(time.Unix(1, 0)), NextEventAt: later, Error: long,
		After: &taskenginev1.After{Tasks: []string{anID, anID}}, Parent: &taskenginev1.Parent{Id: anID, Name: long, Index: most},
	}
	wide := &taskenginev1.Task{Id: anID, Type: "日本語日本語日本語", State: "processing", Key: "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", Error: "שגיאה שגיאה שגיאה שגיאה שגיאה שגיאה"}
	return map[string]func(a *app) error{
		"task list": func(a *app) error { return a.showTasks(one, wide) },
		"task tree": func(a *app) error {
			return a.showTree(&taskenginev1.TreeResponse{Tasks: []*taskenginev1.TreeTask{{Task: one, Depth: 9}}}, time.Now())
		},
		"limit list": func(a *app) error {
			return a.showLimitRows(&taskenginev1.Limit{
				Name: long, Value: long, Of: long, Per: long, Scope: "cluster", Max: most, Used: most, Paused: true, Rate: aLimit.GetRate(), Setting: aLimit.GetSetting(),
			})
		},
		"schedule list": func(a *app) error {
			return a.showScheduleRows(&taskenginev1.Schedule{
				Name: long, Definition: &taskenginev1.ScheduleDefinition{Task: &taskenginev1.ScheduleTask{Type: long}, Cron: "H/5 * * * *", Timezone: "America/Argentina/ComodRivadavia"},
				Next: now, Last: &taskenginev1.ScheduleFire{Time: now}, Fires: 1 << 60, Missed: 1 << 60, Overlapped: 1 << 60, Paused: &taskenginev1.SchedulePause{}, Error: long,
			})
		},
		"worker list": func(a *app) error {
			return a.showWorkers([]*taskenginev1.Worker{{Id: anID, Node: long, Name: long, Handler: long, State: "draining", Slots: most, Running: most, ConnectedAt: now, Sdk: long, Version: long, ClockAhead: span}})
		},
		"type list": func(a *app) error {
			return a.showTypes([]*taskenginev1.Type{{Name: long, Configured: true, Handled: true, Paused: true, Running: most, RunBy: []string{long, long}, Nodes: long}})
		},
		"key list": func(a *app) error {
			return a.showKeyRows([]*taskenginev1.OrderingKey{{Key: long, Head: one, Behind: 1000, BehindTruncated: true, OldestReadyAt: now}})
		},
		"alert list": func(a *app) error {
			return a.showAlerts(&taskenginev1.ListAlertsResponse{
				Alerts:   []*taskenginev1.Alert{{Rule: long, Status: "resolved", Since: now, Summary: long, Notified: []string{long}}},
				Silences: []*taskenginev1.AlertSilence{{Id: anID, Rule: long, Labels: map[string]string{long: long}, Until: later, By: long, Comment: long}},
				Unsent:   []*taskenginev1.UnsentAlerts{{Target: long, Rule: long, Summary: long, At: now}},
			})
		},
		"node list": func(a *app) error {
			return a.showNodes([]*taskenginev1.Node{{Name: long, Version: long, Address: long, Draining: true, Status: &taskenginev1.NodeStatus{
				Running: most, Slots: most, Waiting: most, Shards: 255, ShardsTotal: 256, ClockAhead: span, Uptime: span, Roles: []string{long},
			}}})
		},
		"source list": func(a *app) error {
			return a.showAllSources(
				[]*taskenginev1.Source{{Name: long, Topics: []string{long}, Lag: &lag, Reading: most, PartitionCount: most, Records: most, Tasks: most, Unreadable: most, Skipped: most, Lost: most, Problem: long}},
				[]*taskenginev1.SliceSource{{Name: long, Type: long, PlatformCount: most, LowWater: now, CursorLag: span, Running: most, Failed: most, Stopped: most, Paused: most, Problems: most, Problem: long}},
			)
		},
		"source show (partitions)": func(a *app) error {
			return a.showPartitions([]*taskenginev1.SourcePartition{{Topic: long, Partition: most, Position: 1 << 60, Lag: &lag, Node: long, Message: long}})
		},
		"source show (slices)": func(a *app) error {
			return a.showSliceRows([]*taskenginev1.OpenSlice{{TaskId: anID, Start: now, End: now, FailedAt: now}})
		},
		"task count": func(a *app) error {
			return a.showCounts([]*taskenginev1.StateCount{{Type: long, State: "processing", Count: 1 << 60}})
		},
		"schedule preview": func(a *app) error {
			return a.showScheduleTimes([]*taskenginev1.ScheduleTime{{Time: now, Local: long}})
		},
		"source show (platforms)": func(a *app) error {
			return a.showPlatformRows([]*taskenginev1.Platform{{Name: long, Cursor: now, LowWater: now, CursorLag: span, Running: most, Failed: most, Done: most, Problem: long}})
		},
		"document list": func(a *app) error {
			return a.showDocumentRows(&taskenginev1.Document{Key: long, Version: 1 << 62, Size: most, UpdatedAt: now, ExpiresAt: later})
		},
		"bulk list": func(a *app) error {
			return a.showJobs(&taskenginev1.BulkJob{Name: long, Verb: "reschedule", Phase: "running", Changed: 1 << 60, Skipped: 1 << 60, Refused: 1 << 60, Total: 1 << 60, Rate: 50_000, By: long, Where: long})
		},
		"token list": func(a *app) error {
			return a.showTokens([]*taskenginev1.Token{{Name: long, State: "revoked", Roles: []string{long}, Types: []string{long}, CreatedAt: now, By: long, ExpiresAt: later, RotatedAt: now, EarlierUntil: later, RevokedAt: now, RevokedBy: long}})
		},
		"errors": func(a *app) error {
			return a.showErrors(&taskenginev1.ListErrorsResponse{Complete: true, Kinds: []*taskenginev1.ErrorKind{{Kind: "0123456789abcdef", Pattern: long, Tasks: most, First: now, Last: now, Types: []string{long}, Nodes: []string{long}}}}, time.Now())
		},
		"workflow show": func(a *app) error {
			return a.showWorkflow(&taskenginev1.Workflow{Name: "w", Task: &taskenginev1.Task{Id: anID, State: "done"}, Steps: []*taskenginev1.WorkflowStep{
				{Name: long, State: "running", Type: long, Count: most, Done: most, Failed: most, Began: now, Ended: now, Waits: []string{long}, TaskIds: []string{anID}, Error: long},
			}})
		},
	}
}

func TestEveryTableFitsIntoItsTerminal(t *testing.T) {
	for name, show := range everyTable() {
		for _, width := range []int{60, 80, 100, 132} {
			a, out := onTerminal(width, "NO_COLOR=1")
			if err := show(a); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width {
					t.Errorf("at %d columns %s has a line of %d:\n%s", width, name, got, out)
					break
				}
			}
		}
	}
}

func TestATableIsWholeWhereThereIsRoomAndWhereNoOneLooks(t *testing.T) {
	for name, show := range everyTable() {
		for where, set := range map[string]func(a *app){
			"a wide terminal": func(a *app) { a.width = func() int { return 100_000 } },
			"a file":          func(a *app) { a.outTTY = false },
			"-o wide":         func(a *app) { a.output = wide },
		} {
			a, out := onTerminal(80, "NO_COLOR=1")
			set(a)
			if err := show(a); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "…") || !strings.Contains(out.String(), "a-long-name-a-long-name-") && !strings.Contains(out.String(), anID) {
				t.Errorf("in %s %s is\n%s", where, name, out)
			}
		}
	}
}

func TestTimesAreRelativeButForWideTables(t *testing.T) {
	now := time.Now()
	for ahead, want := range map[time.Duration]string{
		20 * time.Second: "in 20s", 19500 * time.Millisecond: "in 20s", 0: "now", -3 * time.Minute: "3m ago", 50 * time.Hour: "in 2d",
	} {
		a, _ := onTerminal(80)
		if got := a.moment(timestamppb.New(now.Add(ahead)), now); got != want {
			t.Errorf("a time that is %s ahead is %q, want %q", ahead, got, want)
		}
	}
	a, _ := onTerminal(80)
	a.output = wide
	if got := a.moment(timestamppb.New(time.Unix(1, 0)), now); got != "1970-01-01T00:00:01Z" || a.moment(nil, now) != "" {
		t.Errorf("a time is %q", got)
	}
}

// TestTheColumnsOfEveryTableAreCompleted compares the columns that are offered with the headings of the tables.
func TestTheColumnsOfEveryTableAreCompleted(t *testing.T) {
	columns := make(map[string]map[string]bool) // by command
	for name, show := range everyTable() {
		command, _, _ := strings.Cut(name, " (")
		if columns[command] == nil {
			columns[command] = make(map[string]bool)
		}
		a, out := onTerminal(80)
		a.output = wide
		if err := show(a); err != nil {
			t.Fatal(err)
		}
		for one := range strings.SplitSeq(strings.TrimPrefix(out.String(), "\n"), "\n\n") {
			head, _, _ := strings.Cut(one, "\n")
			if head != strings.ToUpper(head) {
				continue // text beside the table
			}
			for heading := range strings.SplitSeq(head, strings.Repeat(" ", columnGap)) {
				if heading = strings.TrimSpace(heading); heading != "" {
					columns[command][columnName(heading)] = true
				}
			}
		}
	}
	commands, _ := tabular()
	everyCommand(newRoot(fromOS()), func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if !slices.Contains(commands, path) {
			return
		}
		offers := make(map[string]bool)
		for _, o := range columnOffers(c) {
			offers[o.value] = true
		}
		if len(offers) == 0 {
			t.Errorf("no column of %s is offered", path)
		}
		if want, ok := columns[path]; ok && !maps.Equal(offers, want) {
			t.Errorf("the columns of %s are %q, and %q are offered", path, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(offers)))
		}
	})
}
