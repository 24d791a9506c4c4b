package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Overview returns the rates and counts of all nodes.
func (a *API) Overview(ctx context.Context, req *taskenginev1.OverviewRequest) (*taskenginev1.OverviewResponse, error) {
	res := &taskenginev1.OverviewResponse{Nodes: []*taskenginev1.NodeOverview{a.ownOverview(ctx, time.Now())}}
	answers, silent := ask(ctx, a, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.OverviewResponse, error) {
		return c.Overview(ctx, req)
	})
	for _, one := range answers {
		res.Nodes = append(res.Nodes, one.Res.GetNodes()...)
	}
	slices.SortStableFunc(res.Nodes, func(a, b *taskenginev1.NodeOverview) int {
		return cmp.Or(cmp.Compare(a.GetNode(), b.GetNode()), cmp.Compare(a.GetId(), b.GetId()))
	})
	res.Silent = silent
	return res, nil
}

// ownOverview returns the numbers of this node that the caller may see.
func (a *API) ownOverview(ctx context.Context, now time.Time) *taskenginev1.NodeOverview {
	own := &taskenginev1.NodeOverview{Node: a.node, Id: a.engine.Incarnation().String()}
	if a.metrics == nil {
		return own
	}
	all := slices.DeleteFunc(append(slices.Sorted(maps.Keys(a.metrics.types)), ""), func(name string) bool {
		if name == "" {
			return a.permitFilter(ctx, nil) != nil
		}
		return a.permit(ctx, name) != nil
	})
	notes, begin := a.metrics.activityUntil(now)
	present := &notes[len(notes)-1]
	own.Window = durationpb.New(now.Sub(begin.at))
	byName := make(map[string]*taskenginev1.TypeOverview, len(all))
	for _, name := range all {
		byName[name] = &taskenginev1.TypeOverview{Type: name, Counts: countsOf(between(begin, present, name))}
		own.Types = append(own.Types, byName[name])
	}
	slices.SortFunc(own.Types, func(a, b *taskenginev1.TypeOverview) int { return cmp.Compare(a.GetType(), b.GetType()) })
	for i := range len(notes) - 1 {
		if i > 0 && i == len(notes)-2 { // the time since the last note is short, and its rate varies much
			break
		}
		own.Points = append(own.Points, &taskenginev1.OverviewPoint{
			From: timestamppb.New(notes[i].at), Until: timestamppb.New(notes[i+1].at), Counts: countsOf(between(&notes[i], &notes[i+1], all...)),
		})
	}
	a.addPresent(own, byName)
	return own
}

// addPresent adds how many tasks there are.
func (a *API) addPresent(own *taskenginev1.NodeOverview, byName map[string]*taskenginev1.TypeOverview) {
	for _, t := range a.engine.Types() {
		name := a.metrics.label(t.Name)
		if of := byName[name]; of != nil {
			of.Running += uint32(t.Running)
			of.Paused = name != "" && t.Paused
		}
	}
	d, ok := a.engine.Depths()
	if !ok {
		return
	}
	own.CountedAt = timestamppb.New(d.At)
	for _, t := range d.Types {
		if of := byName[a.metrics.label(t.Type)]; of != nil {
			addDepth(of, &t)
		}
	}
}

// label returns the name under which a type is counted.
func (m *Metrics) label(name string) string {
	if _, ok := m.types[name]; ok {
		return name
	}
	return ""
}

func addDepth(of *taskenginev1.TypeOverview, d *engine.Depth) {
	of.Waiting += int64(d.Waiting)
	of.Submitted += int64(d.Submitted)
	of.Error += int64(d.Error)
	of.More = of.GetMore() || d.More
	if !d.Oldest.IsZero() && (of.GetOldestReadyAt() == nil || d.Oldest.Before(of.GetOldestReadyAt().AsTime())) {
		of.OldestReadyAt = timestamppb.New(d.Oldest)
	}
}

func countsOf(e *events) *taskenginev1.OverviewCounts {
	c := &taskenginev1.OverviewCounts{
		Submitted: e.submitted, Started: e.started, Done: e.done, Failed: e.failed, Cancelled: e.cancelled, Errors: e.errors, Retried: e.retried,
	}
	if e.busy > 0 {
		c.Busy = durationpb.New(time.Duration(e.busy))
	}
	for size, n := range e.delays {
		if n > 0 {
			c.Delays = append(c.Delays, &taskenginev1.Delays{Seconds: boundOfDelay(size).Seconds(), Count: n})
		}
	}
	return c
}
