package alerting

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/server"
)

// someSources are sources that a test describes.
type someSources struct {
	server.Sources
	all   []*server.Source
	fails error
	asked int
}

func (s *someSources) Names() (names []string) {
	s.asked++
	for _, one := range s.all {
		names = append(names, one.Name)
	}
	return names
}

func (s *someSources) Source(_ context.Context, name string) (*server.Source, error) {
	return s.all[slices.IndexFunc(s.all, func(one *server.Source) bool { return one.Name == name })], s.fails
}

func TestSourcesThatAreBehindFailOrLoseRecordsAreSeen(t *testing.T) {
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	sources := &someSources{all: []*server.Source{
		{Name: "behind", Lag: 7, Paused: &server.SourcePause{Reason: "holidays"}, Partitions: []server.SourcePartition{{Message: "paused"}}},
		{Name: "failing", Lag: 0, Partitions: []server.SourcePartition{{Topic: "t", Node: "n1", Message: "reads"}, {Topic: "t", Partition: 1, Message: "no broker answers"}}},
		{Name: "lost", Partitions: []server.SourcePartition{
			{Topic: "t", Lost: []server.SourceLoss{{From: 0, To: 5, At: now.Add(-25 * time.Hour)}, {From: 10, To: 30, At: now.Add(-time.Hour), Reason: "deleted"}}},
			{Topic: "t", Partition: 1, Ended: true, Message: "the topic was deleted", Lost: []server.SourceLoss{{From: 3, To: 4, At: now.Add(-2 * time.Hour)}}},
		}},
		{Name: "missing", Problem: "no topic t"},
		{Name: "well"},
	}}
	l := &look{config: &Config{Sources: sources}, name: "n1"}
	look := func(at time.Time) alert.Look {
		seen := alert.Look{At: at}
		l.lookAtSources(t.Context(), &seen)
		return seen
	}
	seen := look(now)
	got := facts(seen)
	if f := got["source_lag behind"]; f.Value != 7 || f.Node != "n1" || f.Detail != "it is paused: holidays" {
		t.Errorf("the lag is %+v", f)
	}
	if f := got["source_failing failing"]; f.Value != 1 || f.Detail != "t/1: no broker answers" {
		t.Errorf("the partition that is not read is %+v", f)
	}
	if f := got["source_failing missing"]; f.Detail != "no topic t" {
		t.Errorf("the topic that is missing is %+v", f)
	}
	if f := got["source_lost lost"]; f.Value != 21 || f.News != now.Add(-time.Hour).UnixMicro() || !strings.Contains(f.Detail, "t/0, offsets 10 to 29: deleted") {
		t.Errorf("the loss is %+v", f)
	}
	if len(got) != 4 || !slices.Contains(seen.Whole, alert.SourceLag) || !slices.Contains(seen.Whole, alert.SourceFailing) || !slices.Contains(seen.Whole, alert.SourceLost) {
		t.Errorf("it sees %v, and all of %v", got, seen.Whole)
	}
	if seen = look(now.Add(sourcesEvery - 1)); len(seen.Facts) != 4 || sources.asked != 1 {
		t.Errorf("the sources were looked at %d times, and are %v", sources.asked, seen.Facts)
	}
	sources.all[4].Lag = -1
	if seen = look(now.Add(sourcesEvery)); slices.Contains(seen.Whole, alert.SourceLag) || !slices.Contains(seen.Whole, alert.SourceLost) || sources.asked != 2 {
		t.Errorf("with a lag that is not known, it sees all of %v", seen.Whole)
	}
	sources.fails = errors.New("the store does not answer")
	if seen = look(now.Add(2 * sourcesEvery)); len(seen.Whole) > 0 || len(seen.Facts) > 0 {
		t.Errorf("without a store, it sees %+v", seen)
	}
}
