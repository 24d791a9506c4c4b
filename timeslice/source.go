package timeslice

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Definition is a source as a configuration has it.
type Definition struct {
	Type      string            `json:"type"` // of the tasks of its slices
	Values    Values            `json:"values"`
	Platforms map[string]Values `json:"platforms"` // by name; their values count for more than those of the source
}

// Check returns an error if there cannot be a source with this name and definition.
func (d *Definition) Check(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if d.Type == "" {
		return fmt.Errorf("%w: the slices have no type", ErrInvalid)
	}
	if err := d.Values.checkSource(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for _, platform := range slices.Sorted(maps.Keys(d.Platforms)) {
		if err := CheckName(platform); err != nil {
			return err
		}
		if _, err := d.Platforms[platform].Over(d.Values).Settings(); err != nil {
			return fmt.Errorf("%w: platform %s: %w", ErrInvalid, platform, err)
		}
	}
	return nil
}

// Equal reports whether two definitions are the same.
func (d *Definition) Equal(other *Definition) bool {
	return string(encode(d)) == string(encode(other))
}

// checkSource checks the values of a source. It may leave the interval to its platforms.
func (v Values) checkSource() error {
	longest := Span(MostSpan)
	_, err := v.Over(Values{Interval: &longest}).Settings()
	return err
}

// SourceID returns the id of the task that is the source with a name.
func SourceID(name string) task.ID { return task.ReservedID(CursorType(name)) }

// SourceState is the checkpoint of the task that is a source.
type SourceState struct {
	Defined  Definition    `json:"defined"`
	Live     Values        `json:"live,omitzero"`    // set while nodes run
	Revision uint64        `json:"revision"`         // of these values
	Passed   uint64        `json:"passed"`           // the revision that all platforms have
	Former   []string      `json:"former,omitempty"` // platforms that are to be removed, because Defined had them before
	Missed   []task.ID     `json:"missed,omitempty"` // cursors without the passed revision, because they were ended by hand
	Clock    []Step        `json:"clock,omitempty"`  // the newest steps of the clock, the oldest first
	Redo     *Redo         `json:"redo,omitempty"`   // because of the last step back; nil if there was none
	Orders   []SourceOrder `json:"orders,omitempty"` // that no run has carried out, the oldest first
	History  []Event       `json:"history,omitempty"`
}

// SourceOrder is a request of a person or a node to a source. One of Define, Set and Step is set.
type SourceOrder struct {
	At     time.Time         `json:"at"`
	By     string            `json:"by,omitempty"`
	Reason string            `json:"reason,omitempty"`
	Define *Definition       `json:"define,omitempty"`
	Set    map[string]string `json:"set,omitempty"` // values of the source; empty ones are unset
	Step   *Step             `json:"step,omitempty"`
}

// Obey returns the state after the orders.
func (s SourceState) Obey() SourceState {
	s.History, s.Former = slices.Clone(s.History), slices.Clone(s.Former)
	for _, o := range s.Orders {
		if o.Step != nil {
			if !s.HasStep(o.Step) {
				s.stepped(*o.Step)
				s.History = append(s.History, Event{At: o.At, By: o.By, What: fmt.Sprintf("the clock was set by %v", o.Step.By)})
			}
			continue
		}
		what := "definition of the configuration"
		if o.Define != nil {
			for name := range s.Defined.Platforms {
				if _, ok := o.Define.Platforms[name]; !ok {
					s.Former = append(s.Former, name)
				}
			}
			s.Former = slices.DeleteFunc(s.Former, func(name string) bool {
				_, ok := o.Define.Platforms[name]
				return ok
			})
			s.Defined = *o.Define
		} else {
			what = (&Order{Set: o.Set, Reason: o.Reason}).String()
			for name, text := range o.Set {
				_ = s.Live.Set(name, text) // it was checked when the order was given
			}
		}
		s.Revision++
		s.History = append(s.History, Event{At: o.At, By: o.By, What: what})
	}
	s.Orders = nil
	s.History = s.History[max(0, len(s.History)-MaxHistory):]
	return s
}

// For returns what a platform has from the source.
func (s *SourceState) For(platform string) FromSource {
	return FromSource{
		Revision: s.Revision, Type: s.Defined.Type, File: s.Defined.Values, Live: s.Live, FileOwn: s.Defined.Platforms[platform], Platforms: len(s.Defined.Platforms),
		Redo: s.Redo,
	}
}

// Check returns an error if the source cannot have its values.
func (s *SourceState) Check() error {
	if err := s.Live.Over(s.Defined.Values).checkSource(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// Encode returns the checkpoint.
func (s *SourceState) Encode() []byte { return encode(s) }

// DecodeSource reads the checkpoint of a source.
func DecodeSource(checkpoint []byte) (s SourceState, err error) {
	if len(checkpoint) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(checkpoint, &s); err != nil {
		return s, fmt.Errorf("read the state of the source: %w", err)
	}
	return s, nil
}
