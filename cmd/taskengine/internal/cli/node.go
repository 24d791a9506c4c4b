package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of node share this file.

// showNodes writes nodes as rows, or each as a line of JSON.
func (a *app) showNodes(nodes []*taskenginev1.Node) error {
	if a.json() {
		return printMessages(a, nodes)
	}
	rows := make([][]string, len(nodes))
	for i, n := range nodes {
		s := n.GetStatus()
		rows[i] = []string{n.GetName(), nodeState(n), n.GetVersion(), "", "", "", "", "", strings.Join(s.GetRoles(), ","), n.GetAddress()}
		if s != nil {
			rows[i][3], rows[i][4] = runningOf(s), fmt.Sprint(s.GetWaiting())
			rows[i][5] = fmt.Sprintf("%d/%d", s.GetShards(), s.GetShardsTotal())
			rows[i][6], rows[i][7] = aheadText(s.GetClockAhead()), units.Span(s.GetUptime().AsDuration())
		}
	}
	return a.printTable([]string{"NODE", "STATE", "VERSION", "RUNNING", "WAITING", "SHARDS", "CLOCK", "UP", "ROLES", "ADDRESS"}, rows, "ADDRESS", "WAITING", "VERSION", "CLOCK")
}

// nodeState returns the state of a node: alive, draining, or silent if it did not answer.
func nodeState(n *taskenginev1.Node) string {
	switch {
	case n.GetStatus() == nil:
		return "silent"
	case n.GetDraining():
		return "draining"
	}
	return "alive"
}

// runningOf returns how many tasks a node runs, of how many.
func runningOf(s *taskenginev1.NodeStatus) string {
	if s.GetSlots() == 0 {
		return fmt.Sprint(s.GetRunning())
	}
	return fmt.Sprintf("%d/%d", s.GetRunning(), s.GetSlots())
}

// aheadText returns how far a clock is ahead, as in +1.25s, to a hundredth of a second; "" if that is not known.
func aheadText(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	ahead := d.AsDuration().Round(10 * time.Millisecond)
	if ahead < 0 {
		return ahead.String()
	}
	return "+" + ahead.String()
}

// nodeText describes a node as lines of text.
func nodeText(n *taskenginev1.Node) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, clean(value))
		}
	}
	line("node", n.GetName())
	line("id", n.GetId())
	line("state", nodeState(n))
	line("address", n.GetAddress())
	line("version", n.GetVersion())
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(n.GetLabels())) {
		labels = append(labels, k+"="+n.GetLabels()[k])
	}
	line("labels", strings.Join(labels, ", "))
	line("types", strings.Join(n.GetTypes(), ", "))
	s := n.GetStatus()
	if s == nil {
		return b.String()
	}
	line("up", fmt.Sprintf("%s, since %s", units.Span(s.GetUptime().AsDuration()), s.GetStartedAt().AsTime().Format(time.RFC3339)))
	line("roles", strings.Join(s.GetRoles(), ", "))
	line("shards", fmt.Sprintf("%d of %d", s.GetShards(), s.GetShardsTotal()))
	line("running", runningOf(s)+" slots")
	line("waiting", fmt.Sprintf("%d ready tasks in its memory", s.GetWaiting()))
	line("workers", fmt.Sprint(s.GetWorkers()))
	if ahead := aheadText(s.GetClockAhead()); ahead != "" {
		line("clock", fmt.Sprintf("%s off that of the cluster, give or take %s", ahead, s.GetClockWithin().AsDuration().Round(time.Millisecond)))
	}
	return b.String()
}
