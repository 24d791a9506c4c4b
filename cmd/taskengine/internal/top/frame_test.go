package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// answerOf returns an answer with so many types, kinds of errors and nodes.
func answerOf(types, kinds, nodes int) *Answer {
	o := &taskenginev1.NodeOverview{Node: "n1", Window: durationpb.New(time.Minute), CountedAt: timestamppb.New(noon.Add(-7 * time.Second))}
	for i := range types {
		o.Types = append(o.Types, &taskenginev1.TypeOverview{
			Type: fmt.Sprintf("type%d", i), Running: 2, Submitted: int64(1000 * (types - i)), Error: int64(i), More: i == 0, OldestReadyAt: timestamppb.New(noon.Add(-90 * time.Second)),
			Counts: &taskenginev1.OverviewCounts{Submitted: 600, Started: 300, Errors: uint64(60 * i), Delays: []*taskenginev1.Delays{{Seconds: 0.002, Count: 99}, {Seconds: 3, Count: 1}}},
		})
	}
	a := &Answer{
		Address: "127.0.0.1:7420", At: noon, KindsAt: noon,
		Overview: &taskenginev1.OverviewResponse{Nodes: []*taskenginev1.NodeOverview{o}}, Nodes: new(taskenginev1.ListNodesResponse), Kinds: new(taskenginev1.ListErrorsResponse),
	}
	for i := range kinds {
		a.Kinds.Kinds = append(a.Kinds.Kinds, &taskenginev1.ErrorKind{
			Kind: "3f2a91c0aaaa", Pattern: fmt.Sprintf("the bank \x1b[2J%d answers 503 to each payment of a customer, and says that it does so until the morning", i),
			Tasks: 12, Last: timestamppb.New(noon.Add(-time.Minute)), Types: []string{"type0", "type1"},
		})
	}
	for i := range nodes {
		a.Nodes.Nodes = append(a.Nodes.Nodes, &taskenginev1.Node{Name: fmt.Sprintf("n%d", i), Version: "v1.0.0", Draining: i == 1, Status: &taskenginev1.NodeStatus{
			Running: 7, Slots: 16, Shards: 128, ShardsTotal: 256, Roles: []string{"monitor", "heal"}, Uptime: durationpb.New(26 * time.Hour),
		}})
	}
	return a
}

func TestAFrameHasTheNumbers(t *testing.T) {
	f := &Frame{Answer: answerOf(2, 1, 2), Now: noon.Add(3 * time.Second), Colour: false}
	text := strings.Join(f.Lines(), "\n")
	for _, want := range []string{
		"127.0.0.1:7420  12:00:00Z", "submitted 20.0  started 10.0", "failed 1.0", "p50 2.0 ms  p99 2.0 ms", "ready 3000+, the oldest for 1m33s", "running 4",
		"error 1", "counted 10s ago", "type0", "2000+", `the bank \x1b[2J0 answers 503`, "until the morning", "n1 (draining)", "128/256", "monitor,heal",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("there are escape sequences in %q", text)
	}
}

func TestAFrameFitsTheTerminal(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {80, 10}, {132, 50}, {40, 12}, {20, 5}, {1, 1}} {
		f := &Frame{Answer: answerOf(60, 20, 30), Now: noon, Keys: true, Width: size[0], Height: size[1], Problem: "connection refused", Since: noon.Add(-time.Hour)}
		f.Answer.Overview.Silent = []*taskenginev1.SilentNode{{Node: "n9", Problem: "it is away\n"}}
		lines := f.Lines()
		if len(lines) > size[1] {
			t.Errorf("%v: it has %d lines:\n%s", size, len(lines), strings.Join(lines, "\n"))
		}
		for _, l := range lines {
			if w := uniseg.StringWidth(l); w > size[0] {
				t.Errorf("%v: a line has %d columns: %s", size, w, l)
			}
		}
	}
}

func TestAFrameOfEightyColumnsHasEveryNumberOfATypeAndANode(t *testing.T) {
	f := &Frame{Answer: answerOf(3, 3, 3), Now: noon, Keys: true, Width: 80, Height: 30}
	f.Answer.Overview.Nodes[0].Types[0].Type = strings.Repeat("long name ", 20)
	text := strings.Join(f.Lines(), "\n")
	for _, want := range []string{"FAIL/S", "P50", "P99", "2.0ms  2.0ms", "long name", "3000+", "ROLES", "3f2a91c0", "q: quit"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in:\n%s", want, text)
		}
	}
}

func TestAFrameSaysWhichPartsAreMissing(t *testing.T) {
	f := &Frame{Answer: answerOf(1, 0, 1), Now: noon.Add(time.Minute), Problem: "connection refused", Since: noon, Colour: true}
	f.Answer.Nodes, f.Answer.NodesProblem = nil, "the token may not see nodes"
	f.Answer.Overview.Silent = []*taskenginev1.SilentNode{{Node: "n2", Problem: "timeout"}}
	text := strings.Join(f.Lines(), "\n")
	for _, want := range []string{"no answer since 12:00:00Z (1m0s ago): connection refused", "node n2 does not answer", "nodes: the token may not see nodes", "\x1b[31;1m"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in:\n%s", want, text)
		}
	}
}
