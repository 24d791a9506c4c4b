// Package sessions keeps which sessions of the dashboard were ended before their time, in the settings of a cluster, so that they
// have ended on all of its nodes. The sessions themselves are in the browsers.
package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/kept"
	"github.com/taskengine/taskengine/internal/access"
)

const (
	// maxSize is how many bytes the records may have: some thousands, and less than any coordinator takes.
	maxSize = 512 << 10

	// maxOfPerson is how many ended sessions of a person are told apart. If there are more, all that the person has had have ended.
	maxOfPerson = 20

	// slack is for how much longer than a session lasts its end is kept: the clocks of nodes differ.
	slack = 10 * time.Minute
)

// Errors of [Ended.End].
var (
	ErrKnown       = errors.New("the order to end sessions was given before")
	ErrUnavailable = kept.ErrUnavailable
	ErrBusy        = kept.ErrBusy
)

// Config configures an [Ended].
type Config struct {
	Settings coord.Config  // where the records are kept
	Session  time.Duration // the longest time that a session lasts
	Now      func() time.Time
	Log      *slog.Logger
}

// Ended knows which sessions were ended before their time.
type Ended struct {
	Config
	value *kept.Value[[]record]
}

// record is an order to end sessions.
type record struct {
	access.Ending
	Order string    `json:"order,omitempty"` // identifies the order, such as the token by which it came
	By    string    `json:"by,omitempty"`    // who gave it
	Until time.Time `json:"until"`           // then the sessions have ended anyway
}

// Open reads the records.
func Open(ctx context.Context, c Config) (*Ended, error) {
	value, err := kept.Open(ctx, kept.Config[[]record]{
		Settings: c.Settings, Name: coord.EndedSetting, What: "the ended sessions of the cluster", Decode: decode, Log: c.Log,
		Refused: "cannot be read, and no session is accepted now",
	})
	if err != nil {
		return nil, err
	}
	return &Ended{c, value}, nil
}

// Watch follows the records until ctx ends: within about a second while the settings can be read.
func (e *Ended) Watch(ctx context.Context) { e.value.Watch(ctx) }

// Time returns the time of the cluster, by which sessions begin.
func (e *Ended) Time() time.Time { return e.Now() }

// Has reports whether a session was ended. The error says for people why it is not known. Has does not block.
func (e *Ended) Has(s *access.Session) (bool, error) {
	if age := e.value.Age(); age >= kept.RefuseAfter {
		return false, fmt.Errorf("it has not been able to read the settings of the cluster for %v; log in with a token of the file of api.tokens", age.Round(time.Second))
	}
	records, _ := e.value.Known()
	return slices.ContainsFunc(records, func(r record) bool { return r.Ends(s) }), nil
}

// errCovered says that what is to be ended has been ended.
var errCovered = errors.New("the sessions have been ended before")

// End ends sessions on all nodes. order identifies the order: a second one is refused by [ErrKnown]; "" is none. by is who gives it.
func (e *Ended) End(ctx context.Context, what access.Ending, order, by string) error {
	err := e.value.Change(ctx, func(all []record) ([]byte, error) {
		if order != "" && slices.ContainsFunc(all, func(r record) bool { return r.Order == order }) {
			return nil, ErrKnown
		}
		now := e.Now().UTC().Truncate(time.Millisecond)
		one := record{what, order, by, now.Add(e.Session + slack)}
		if slices.ContainsFunc(all, func(r record) bool { return one.isCoveredBy(&r) }) {
			return nil, errCovered
		}
		all = slices.DeleteFunc(all, func(r record) bool { return !now.Before(r.Until) || r.isCoveredBy(&one) })
		all = fewer(append(all, one))
		text, err := json.Marshal(document{all})
		if err == nil && len(text) > maxSize {
			e.Log.Warn("too many sessions were ended to tell them apart, so all have ended; people log in again", "ended", len(all))
			one.Ending = access.Ending{Before: now}
			text, err = json.Marshal(document{[]record{one}})
		}
		return text, err
	})
	if errors.Is(err, errCovered) {
		return nil
	}
	return err
}

// isCoveredBy reports whether other ends all that r ends.
func (r *record) isCoveredBy(other *record) bool {
	switch {
	case r.Before.After(other.Before):
		return false
	case other.Session != "":
		return r.Session == other.Session
	case other.Subject != "":
		return r.Subject == other.Subject
	}
	return r.Session == "" && r.Subject == "" && r.Person == other.Person
}

// fewer returns records in which not too many are of one person: of the person of the last one.
func fewer(all []record) []record {
	last, n := all[len(all)-1], 0
	isOfPerson := func(r record) bool { return r.Subject == last.Subject }
	for _, r := range all {
		if isOfPerson(r) && r.Session != "" {
			n++
		}
	}
	if last.Subject == "" || n <= maxOfPerson {
		return all
	}
	for _, r := range all {
		if isOfPerson(r) && r.Before.After(last.Before) {
			last.Before = r.Before
		}
	}
	last.Session = ""
	return append(slices.DeleteFunc(all, isOfPerson), last)
}

// document is the value of the setting, as JSON.
type document struct {
	Ended []record `json:"ended"` // the oldest first
}

// decode reads the value of the setting. A field that this version does not know is an error: it may end more sessions.
func decode(value []byte) ([]record, error) {
	if value == nil {
		return nil, nil
	}
	var doc document
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	err := d.Decode(&doc)
	if _, end := d.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("there is more after its end")
	}
	if err != nil {
		return nil, fmt.Errorf("the ended sessions of the cluster are damaged, or of a newer version: %w", err)
	}
	return doc.Ended, nil
}
