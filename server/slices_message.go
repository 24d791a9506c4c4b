package server

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// sliceSourceOf returns the message of a source of time slices, without the sums of its platforms.
func sliceSourceOf(name string, s *slicer.SourceStatus) *taskenginev1.SliceSource {
	m := &taskenginev1.SliceSource{
		Name: text(name), Type: text(s.State.Defined.Type), Orders: uint32(s.Waiting()), Problem: text(s.Problem), TaskId: s.Task.String(),
		History: changesOf(s.State.History), Version: s.State.Revision + uint64(len(s.State.Orders)),
	}
	file, live := s.State.Defined.Values.All(), s.State.Live.All()
	all := maps.Clone(file)
	maps.Copy(all, live)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		from := timeslice.FromFile
		if _, ok := live[name]; ok {
			from = timeslice.FromLive
		}
		m.Values = append(m.Values, &taskenginev1.SliceSetting{Name: name, Value: all[name], From: from})
	}
	return m
}

// addPlatform adds a platform to the sums of its source.
func addPlatform(m *taskenginev1.SliceSource, p *taskenginev1.Platform) {
	if p.GetRemoved() {
		return
	}
	m.PlatformCount++
	if p.LowWater != nil && (m.LowWater == nil || p.GetLowWater().AsTime().Before(m.GetLowWater().AsTime())) {
		m.LowWater = p.GetLowWater()
	}
	if p.CursorLag != nil && (m.CursorLag == nil || p.GetCursorLag().AsDuration() > m.GetCursorLag().AsDuration()) {
		m.CursorLag = p.GetCursorLag()
	}
	m.Running += uint64(p.GetRunning())
	m.Failed += uint64(p.GetFailed())
	for _, one := range [...]struct {
		to *uint32
		is bool
	}{{&m.Stopped, p.GetStopped() != nil}, {&m.Paused, p.GetPaused() != nil}, {&m.Problems, p.GetProblem() != ""}} {
		if one.is {
			*one.to++
		}
	}
}

// platformOf returns the message of a platform of a source, as lists have it.
func platformOf(one *slicer.Status, of *timeslice.SourceState, now time.Time) *taskenginev1.Platform {
	s := &one.State
	running, failed := s.Running()
	layers := s.Pending()
	_, isConfigured := of.Defined.Platforms[one.Platform.Name]
	m := &taskenginev1.Platform{
		Source: text(one.Platform.Source), Name: text(one.Platform.Name), Next: stamp(one.Next),
		Running: uint32(running), Failed: uint32(failed), Removed: s.Removed, Orders: uint32(len(s.Orders)), Problem: text(one.Problem),
		Made: s.Made, Done: s.Done, GivenUp: s.GivenUp, TaskId: one.Task.String(), Version: s.Version, Own: layers.Own.All(), Configured: isConfigured,
	}
	if !s.Cursor.IsZero() {
		m.Cursor, m.LowWater, m.CursorLag = stamp(s.Cursor), stamp(s.Low()), durationpb.New(now.Sub(s.Cursor))
	}
	if stop := s.Stopped; stop != nil {
		m.Stopped = &taskenginev1.PlatformStop{Since: stamp(stop.Since), Next: stamp(stop.Next), Probes: uint32(stop.Probes)}
	}
	if s.Paused != nil {
		m.Paused = &taskenginev1.SourcePause{Since: stamp(s.Paused.Since), Reason: text(s.Paused.Reason)}
	}
	return m
}

// detailPlatform adds what lists do not have.
func detailPlatform(m *taskenginev1.Platform, one *slicer.Status) {
	s := &one.State
	if s.Used != nil {
		for _, v := range s.Layers.Origins(s.Used) {
			m.Settings = append(m.Settings, &taskenginev1.SliceSetting{Name: v.Name, Value: v.Value, From: v.From})
		}
	}
	for i := range s.Open {
		slice := &s.Open[i]
		m.Slices = append(m.Slices, &taskenginev1.OpenSlice{
			Start: stamp(slice.Start), End: stamp(slice.End), FailedAt: stamp(slice.Failed), TaskId: slice.ID(one.Task).String(),
		})
	}
	m.History = changesOf(s.History)
}

func changesOf(history []timeslice.Event) (all []*taskenginev1.SliceChange) {
	for _, one := range history {
		all = append(all, &taskenginev1.SliceChange{At: stamp(one.At), By: text(one.By), What: text(one.What)})
	}
	return all
}
