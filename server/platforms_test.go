package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// applied returns the outcomes of rows as texts.
func (n *sliceNode) applied(req *taskenginev1.ApplyPlatformsRequest) (texts []string) {
	n.t.Helper()
	req.Source = "orders"
	res, err := n.ApplyPlatforms(n.t.Context(), req)
	if err != nil {
		n.t.Fatal(err)
	}
	time.Sleep(time.Second)
	for _, one := range res.GetPlatforms() {
		texts = append(texts, fmt.Sprint(one.GetName(), " ", one.GetOutcome(), one.GetCode(), " ", one.GetVersion()))
	}
	return texts
}

func TestPlatformsAreAppliedChangedAndRemovedTogether(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m"}, []string{"a", "b"}, func(n *sliceNode) {
		time.Sleep(2 * time.Second)
		rows := []*taskenginev1.PlatformRow{
			{Name: "eu-1", Values: map[string]string{"interval": "5m", "lag": "3s"}},
			{Name: "a", Values: map[string]string{"retries": "1"}, IfVersion: new(uint64(1))},
			{Name: "b", Removed: true, IfVersion: new(uint64(7))},
			{Name: "eu-2", IfVersion: new(uint64(0))},
		}
		want := []string{"eu-1 created 1", "a updated 2", "b aborted 0", "eu-2 created 1"}
		for _, isDry := range []bool{true, false} {
			if got := n.applied(&taskenginev1.ApplyPlatformsRequest{Platforms: rows, DryRun: isDry, By: "anna", Reason: "a list"}); !slices.Equal(got, want) {
				n.t.Errorf("%q, want %q", got, want)
			}
			if s := n.source(); isDry == (s.GetPlatformCount() != 2) {
				n.t.Errorf("dry run %v: %v", isDry, s)
			}
		}
		p := n.platform("eu-1")
		if p.GetVersion() != 1 || p.GetConfigured() || len(p.GetOwn()) != 2 || p.GetOwn()["interval"] != "5m0s" || len(p.GetHistory()) != 2 ||
			p.GetHistory()[1].GetBy() != "unknown (says anna)" || p.GetHistory()[1].GetWhat() != "set interval=5m0s lag=3s: a list" {
			n.t.Errorf("%v", p)
		}
		if !strings.Contains(n.log.String(), `created=2 updated=1 removed=0 unchanged=0 refused=1 by="unknown (says anna)" reason="a list"`) {
			n.t.Error(n.log.String())
		}
		rows = []*taskenginev1.PlatformRow{{Name: "eu-1", Values: map[string]string{"lag": "4s"}, Replace: true}, {Name: "b", Removed: true}, {Name: "a"}}
		if got := n.applied(&taskenginev1.ApplyPlatformsRequest{Platforms: rows}); !slices.Equal(got, []string{"eu-1 updated 2", "b removed 2", "a unchanged 2"}) {
			n.t.Errorf("%q", got)
		}
		res, err := n.ListPlatforms(n.t.Context(), &taskenginev1.ListPlatformsRequest{Source: "orders"})
		if err != nil {
			n.t.Fatal(err)
		}
		var texts []string
		for _, p := range res.GetPlatforms() {
			texts = append(texts, fmt.Sprint(p.GetName(), p.GetVersion(), p.GetOwn(), p.GetRemoved(), p.GetConfigured()))
		}
		if want := "a2 map[retries:1] false true, b2 map[] true true, eu-12 map[lag:4s] false false, eu-21 map[] false false"; strings.Join(texts, ", ") != want {
			n.t.Errorf("%q", texts)
		}
	})
}

// A platform that is added with values has them for its first slice.
func TestAPlatformIsAddedWithValuesOfItsOwn(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1h"}, nil, func(n *sliceNode) {
		time.Sleep(2 * time.Second)
		version := n.source().GetVersion()
		start := time.Now().Add(-10 * time.Minute)
		n.ok(n.AddPlatform(n.t.Context(), &taskenginev1.AddPlatformRequest{
			Source: "orders", Platform: "new", Values: map[string]string{"interval": "1m", "start": start.Format(time.RFC3339)}, By: "anna", Reason: "a shop",
		}))
		p := n.platform("new")
		if p.GetMade() != 10 || p.GetVersion() != 1 || p.GetHistory()[0].GetWhat() != "add: a shop" {
			n.t.Errorf("%v", p)
		}
		if now := n.source().GetVersion(); now != version {
			n.t.Errorf("the version of the source was %d, and is %d", version, now)
		}
		n.ok(n.SetSlices(n.t.Context(), &taskenginev1.SetSlicesRequest{Source: "orders", Values: map[string]string{"lag": "1s"}}))
		if now := n.source().GetVersion(); now != version+1 {
			n.t.Errorf("the version of the source was %d, and is %d", version, now)
		}
	})
}

func TestPlatformsWithAPrefixArePausedResumedAndRetried(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m"}, []string{"eu-a", "eu-b", "us-a"}, func(n *sliceNode) {
		ctx := n.t.Context()
		time.Sleep(2 * time.Minute)
		paused, err := n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Prefix: "eu-", Reason: "a fair"})
		if n.ok(paused, err); paused.GetPlatforms() != 2 || n.source().GetPaused() != 2 || n.platform("us-a").GetPaused() != nil || n.platform("eu-b").GetPaused().GetReason() != "a fair" {
			n.t.Errorf("%v", paused)
		}
		if !strings.Contains(n.log.String(), `verb=pause source=orders platform="" by=unknown reason="a fair" prefix=eu-`) {
			n.t.Error(n.log.String())
		}
		resumed, err := n.ResumeSlices(ctx, &taskenginev1.ResumeSlicesRequest{Source: "orders", Prefix: "eu-a"})
		if n.ok(resumed, err); resumed.GetPlatforms() != 1 || n.source().GetPaused() != 1 {
			n.t.Errorf("%v", resumed)
		}
		retried, err := n.RetrySlices(ctx, &taskenginev1.RetrySlicesRequest{Source: "orders", Prefix: "x"})
		if n.ok(retried, err); retried.GetPlatforms() != 0 {
			n.t.Errorf("%v", retried)
		}
	})
}

func TestListsOfPlatformsThatCannotBeAreRefused(t *testing.T) {
	inSliceNode(t, map[string]string{"interval": "1m"}, []string{"a"}, func(n *sliceNode) {
		ctx := n.t.Context()
		time.Sleep(2 * time.Second)
		rows := func(rows ...*taskenginev1.PlatformRow) *taskenginev1.ApplyPlatformsRequest {
			return &taskenginev1.ApplyPlatformsRequest{Source: "orders", Platforms: rows}
		}
		many := rows(make([]*taskenginev1.PlatformRow, 1001)...)
		long := rows(&taskenginev1.PlatformRow{Name: "b"})
		long.Reason = strings.Repeat("x", 1001)
		other := rows()
		other.Source = "records"
		for words, req := range map[string]*taskenginev1.ApplyPlatformsRequest{
			"has 1001 platforms, of 1000 allowed": many,
			"reason has 1001 bytes":               long,
			"reads topics":                        other,
			"row 1: ":                             rows(nil),
			"there is another row of b":           rows(&taskenginev1.PlatformRow{Name: "b"}, &taskenginev1.PlatformRow{Name: "b"}),
			"100 allowed":                         rows(&taskenginev1.PlatformRow{Name: "b", Values: map[string]string{"lag": strings.Repeat("1", 101)}}),
			"interval":                            rows(&taskenginev1.PlatformRow{Name: "b", Values: map[string]string{"interval": "1ms"}}),
		} {
			want := connect.CodeInvalidArgument
			if words == "reads topics" {
				want = connect.CodeNotFound
			}
			if _, err := n.ApplyPlatforms(ctx, req); connect.CodeOf(err) != want || !strings.Contains(err.Error(), words) {
				n.t.Errorf("%v, want %v and %q", err, want, words)
			}
		}
		if _, err := n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "a", Prefix: "a"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			n.t.Error(err)
		}
		if _, err := n.AddPlatform(ctx, &taskenginev1.AddPlatformRequest{Source: "orders", Platform: "b", Values: map[string]string{"lag": "soon"}}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			n.t.Error(err)
		}
		if n.source().GetPlatformCount() != 1 {
			n.t.Errorf("%v", n.source())
		}
	})
}
