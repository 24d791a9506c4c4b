package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/internal/chart"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// How long the overview waits for its parts. One that is late comes with a later refresh.
const (
	nodesPatience = 2 * time.Second
	kindsPatience = 150 * time.Millisecond
)

// overviewKinds is how many kinds of errors the overview shows.
const overviewKinds = 8

func overviewPage() page {
	return page{path: "{$}", name: "Overview", key: "o", template: "overview", every: 2 * time.Second, load: loadOverview}
}

// overview has the values of the page.
type overview struct {
	Window      time.Duration
	All         typeRow
	Types       []typeRow
	Quiet       int // types that do nothing and have no tasks
	CountedAt   *timestamppb.Timestamp
	Nodes       []*taskenginev1.Node
	NodesHidden bool                             // the token may not see nodes
	Kinds       *taskenginev1.ListErrorsResponse // nil: not known yet
	KindsAt     *timestamppb.Timestamp
	KindsHidden string // why there are none
	Rates       template.HTML
	Delays      template.HTML
}

// typeRow has the numbers of a type, or of all.
type typeRow struct {
	Name                                      string  // "" for types that are not configured
	Submitted, Started, Done, Failed, Retried float64 // in a second
	P50, P99                                  float64 // seconds; 0 if nothing has started
	Waiting, Ready, Errors                    int64
	More, Paused                              bool
	Running                                   uint32
	Oldest                                    *timestamppb.Timestamp
}

func loadOverview(v *view) (any, error) {
	v.command = commandLine("node", "list")
	numbers, err := shared(v, "overview", nodesPatience, func(ctx context.Context) (*taskenginev1.OverviewResponse, error) {
		return v.api().Overview(ctx, &taskenginev1.OverviewRequest{})
	})
	if err != nil {
		return nil, err
	}
	o := new(overview)
	o.add(numbers.Value.GetNodes())
	v.silent = numbers.Value.GetSilent()
	o.draw(numbers.Value.GetNodes())
	o.loadNodes(v)
	o.loadKinds(v)
	return o, nil
}

// loadNodes adds the nodes, if the token may see them.
func (o *overview) loadNodes(v *view) {
	if v.token != nil && !v.token.IsForAll() {
		o.NodesHidden = true
		return
	}
	nodes, err := v.nodes()
	if err != nil {
		o.NodesHidden = true
		return
	}
	o.Nodes = nodes.GetNodes()
}

// loadKinds adds the kinds of errors. It may take long to count them.
func (o *overview) loadKinds(v *view) {
	req := &taskenginev1.ListErrorsRequest{Limit: overviewKinds}
	if v.token != nil {
		req.Types = v.token.Types
	}
	kinds, err := shared(v, "kinds", kindsPatience, func(ctx context.Context) (*taskenginev1.ListErrorsResponse, error) {
		return v.api().ListErrors(ctx, req)
	})
	if err != nil {
		o.KindsHidden = errorText(err)
		return
	}
	if o.Kinds = kinds.Value; o.Kinds != nil {
		o.KindsAt = timestamppb.New(kinds.At)
	}
}

// add sums up the numbers of nodes.
func (o *overview) add(nodes []*taskenginev1.NodeOverview) {
	byName := make(map[string]*sum)
	all := new(sum)
	for _, n := range nodes {
		window := n.GetWindow().AsDuration()
		o.Window = max(o.Window, window)
		if at := n.GetCountedAt(); at != nil && (o.CountedAt == nil || at.AsTime().Before(o.CountedAt.AsTime())) {
			o.CountedAt = at
		}
		for _, t := range n.GetTypes() {
			one := byName[t.GetType()]
			if one == nil {
				one = new(sum)
				byName[t.GetType()] = one
			}
			one.addType(t, window)
			all.addType(t, window)
		}
	}
	o.All = all.row("")
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		row := byName[name].row(name)
		if row.isQuiet() {
			o.Quiet++
			continue
		}
		o.Types = append(o.Types, row)
	}
	slices.SortStableFunc(o.Types, func(a, b typeRow) int { return cmp.Compare(b.weight(), a.weight()) })
}

// weight orders types: those with errors and with much to do come first.
func (r *typeRow) weight() float64 {
	return float64(r.Ready+r.Errors) + r.Started + r.Submitted + float64(r.Running)
}

func (r *typeRow) isQuiet() bool {
	return r.weight() == 0 && r.Waiting == 0 && r.Retried == 0 && r.Failed == 0 && !r.Paused
}

// sum adds up the numbers of a type of several nodes.
type sum struct {
	typeRow
	delays map[float64]uint64
}

func (s *sum) addType(t *taskenginev1.TypeOverview, window time.Duration) {
	c := t.GetCounts()
	if seconds := window.Seconds(); seconds > 0 {
		s.Submitted += float64(c.GetSubmitted()) / seconds
		s.Started += float64(c.GetStarted()) / seconds
		s.Done += float64(c.GetDone()) / seconds
		s.Failed += float64(c.GetFailed()+c.GetErrors()) / seconds
		s.Retried += float64(c.GetRetried()) / seconds
	}
	s.addDelays(c)
	s.Waiting += t.GetWaiting()
	s.Ready += t.GetSubmitted()
	s.Errors += t.GetError()
	s.Running += t.GetRunning()
	s.More = s.More || t.GetMore()
	s.Paused = s.Paused || t.GetPaused()
	if at := t.GetOldestReadyAt(); at != nil && (s.Oldest == nil || at.AsTime().Before(s.Oldest.AsTime())) {
		s.Oldest = at
	}
}

func (s *sum) addDelays(c *taskenginev1.OverviewCounts) {
	if s.delays == nil {
		s.delays = make(map[float64]uint64)
	}
	for _, d := range c.GetDelays() {
		s.delays[d.GetSeconds()] += d.GetCount()
	}
}

func (s *sum) row(name string) typeRow {
	row := s.typeRow
	row.Name, row.P50, row.P99 = name, s.quantile(0.5), s.quantile(0.99)
	return row
}

// quantile returns the delay that a share of the tasks did not exceed, 0 if there are none.
func (s *sum) quantile(q float64) float64 {
	var all uint64
	for _, n := range s.delays {
		all += n
	}
	left := uint64(math.Ceil(q * float64(all)))
	for _, d := range slices.Sorted(maps.Keys(s.delays)) {
		if n := s.delays[d]; n >= left {
			return d
		} else {
			left -= n
		}
	}
	return 0
}

// draw draws the last minutes. The points of several nodes are at different times: they are gathered by the time of their middle.
func (o *overview) draw(nodes []*taskenginev1.NodeOverview) {
	const width = 10 // seconds
	type place struct {
		sum
		submitted, started, ended, failed float64
	}
	places := make(map[int64]*place)
	var newest int64
	for _, n := range nodes {
		for _, p := range n.GetPoints() {
			from, until := p.GetFrom().AsTime(), p.GetUntil().AsTime()
			at := from.Add(until.Sub(from)/2).Unix() / width
			one := places[at]
			if one == nil {
				one = new(place)
				places[at] = one
			}
			seconds, c := max(until.Sub(from).Seconds(), 0.1), p.GetCounts()
			one.submitted += float64(c.GetSubmitted()) / seconds
			one.started += float64(c.GetStarted()) / seconds
			one.ended += float64(c.GetDone()) / seconds
			one.failed += float64(c.GetFailed()+c.GetErrors()+c.GetRetried()) / seconds
			one.addDelays(c)
			newest = max(newest, at)
		}
	}
	span := chart.Line{Points: []chart.Point{{X: -10}}} // a point that is not drawn, so that the axis is always as long
	lines := []chart.Line{{Style: 0}, {Style: 2}, {Style: 1}}
	delays := []chart.Line{{Style: 3}, {Style: 6}}
	for _, at := range slices.Sorted(maps.Keys(places)) {
		p, x := places[at], float64(at-newest)*width/60
		for i, y := range []float64{p.submitted, p.ended, p.failed} {
			lines[i].Points = append(lines[i].Points, chart.Point{X: x, Y: y, Bare: true, Tip: fmt.Sprintf("%s/s, %s min ago", showRate(y), showRate(-x))})
		}
		if len(p.delays) > 0 {
			for i, q := range []float64{0.5, 0.99} {
				y := p.quantile(q)
				delays[i].Points = append(delays[i].Points, chart.Point{X: x, Y: y, Bare: true, Tip: fmt.Sprintf("%s, %s min ago", showDelay(y), showRate(-x))})
			}
		}
	}
	minutes := func() chart.Axis {
		return chart.Axis{Label: "minutes", Format: func(v float64) string { return fmt.Sprintf("%.3g", v) }}
	}
	rates := &chart.Frame{X: minutes(), Y: chart.Axis{Label: "tasks in a second", Format: showRate}, Height: 150, Lines: append(lines, span)}
	latencies := &chart.Frame{X: minutes(), Y: chart.Axis{Label: "from ready to start", By: chart.Logged, Format: showDelay}, Height: 150, Lines: append(delays, span)}
	rates.Fit(5, 4)
	latencies.Fit(5, 4)
	o.Rates = chart.Draw("Rates", "Tasks in a second during the last ten minutes: submitted, done, and failed attempts.", "rates", rates)
	o.Delays = chart.Draw("Start latency", "The median and the 99th percentile of the time from ready to started, during the last ten minutes.", "delays", latencies)
}
