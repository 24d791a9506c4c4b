package duty

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/coord"
)

// settingsName is the name of the settings that keep the state of alerts.
const settingsName = "alerts"

// The scopes of these settings.
const (
	// SharedScope is the scope of the alerts about shared state.
	SharedScope   = "shared"
	nodeScope     = "node/" // prefix of the scopes of alerts about one node
	silencesScope = "silences"
)

// NodeScope returns the scope of the alerts about a node.
func NodeScope(name string) string { return nodeScope + name }

// maxSilences is how many silences there may be.
const maxSilences = 1000

// changeTries is how often a change is tried while others change the same.
const changeTries = 10

// ErrNoSilence says that there is no silence with an ID.
var ErrNoSilence = errors.New("there is no such silence")

// errTaken says that another node has changed the state of a scope.
var errTaken = errors.New("another node has taken over these alerts")

// Store keeps the states of alerts and the silences. It is safe for concurrent use.
type Store struct{ settings coord.Config }

// NewStore returns a store that keeps them in settings.
func NewStore(settings coord.Config) *Store { return &Store{settings} }

// Overview is all that is stored.
type Overview struct {
	States   map[string]alert.State // by scope
	Running  []string               // names of nodes that have begun and not said that they end, sorted
	Silences []alert.Silence
	versions map[string]uint64
	values   map[string][]byte
}

// document is the stored value of a scope.
type document struct {
	alert.State
	Running bool `json:"running,omitempty"` // the node has started and has not called Leave
}

// Read returns all that is stored.
func (s *Store) Read(ctx context.Context) (Overview, error) {
	o := Overview{States: map[string]alert.State{}, versions: map[string]uint64{}, values: map[string][]byte{}}
	all, err := s.settings.Settings(ctx, settingsName)
	if err != nil {
		return o, err
	}
	for _, one := range all {
		o.versions[one.Scope], o.values[one.Scope] = one.Version, one.Value
		if one.Scope == silencesScope {
			err = json.Unmarshal(one.Value, &o.Silences)
		} else {
			var d document
			err = json.Unmarshal(one.Value, &d)
			o.States[one.Scope] = d.State
			if name, ok := strings.CutPrefix(one.Scope, nodeScope); ok && d.Running {
				o.Running = append(o.Running, name)
			}
		}
		if err != nil {
			return o, fmt.Errorf("the stored state of alerts, %s, is damaged: %w", one.Scope, err)
		}
	}
	return o, nil
}

// Silence adds a silence, and removes the silences that have ended by then.
func (s *Store) Silence(ctx context.Context, one alert.Silence) error {
	return s.changeSilences(ctx, func(all []alert.Silence) ([]alert.Silence, error) {
		all = slices.DeleteFunc(all, func(old alert.Silence) bool { return !one.At.Before(old.Until) })
		if len(all) >= maxSilences {
			return nil, fmt.Errorf("there are %d silences already; remove some", len(all))
		}
		return append(all, one), nil
	})
}

// Unsilence removes a silence. If there is none, it returns [ErrNoSilence].
func (s *Store) Unsilence(ctx context.Context, id string) error {
	return s.changeSilences(ctx, func(all []alert.Silence) ([]alert.Silence, error) {
		left := slices.DeleteFunc(slices.Clone(all), func(one alert.Silence) bool { return one.ID == id })
		if len(left) == len(all) {
			return nil, ErrNoSilence
		}
		return left, nil
	})
}

func (s *Store) changeSilences(ctx context.Context, change func([]alert.Silence) ([]alert.Silence, error)) error {
	for range changeTries {
		o, err := s.Read(ctx)
		if err != nil {
			return err
		}
		next, err := change(o.Silences)
		if err != nil {
			return err
		}
		var value []byte // none: remove
		if len(next) > 0 {
			if value, err = json.Marshal(next); err != nil {
				return err
			}
		}
		_, swapped, err := s.settings.Swap(ctx, settingsName, silencesScope, o.versions[silencesScope], value)
		if err != nil || swapped {
			return err
		}
	}
	return fmt.Errorf("the silences were changed by others, %d times in a row; try again", changeTries)
}

// part is the state of one scope, as one duty has stored it. One goroutine uses it.
type part struct {
	store   *Store
	scope   string
	running bool // stored with the state
	version uint64
	value   []byte // that has this version; nil if there is none
	tried   []byte // that may be stored instead, because the outcome is not known; nil if it is
	inDoubt bool
}

// load reads the state.
func (p *part) load(ctx context.Context) (alert.State, error) {
	o, err := p.store.Read(ctx)
	if err != nil {
		return alert.State{}, err
	}
	p.version, p.value, p.inDoubt = o.versions[p.scope], o.values[p.scope], false
	return o.States[p.scope], nil
}

// save stores a state, or removes the stored document if the state is empty. It returns errTaken if
// another node has changed the document.
func (p *part) save(ctx context.Context, s alert.State) error {
	var value []byte
	if len(s.Alerts)+len(s.Queue)+len(s.Rates) > 0 || p.running {
		var err error
		if value, err = json.Marshal(document{s, p.running}); err != nil {
			return err
		}
	}
	if p.inDoubt {
		if err := p.settle(ctx); err != nil {
			return err
		}
	}
	now, swapped, err := p.store.settings.Swap(ctx, settingsName, p.scope, p.version, value)
	switch {
	case err != nil:
		p.tried, p.inDoubt = value, true
		return err
	case !swapped:
		return errTaken
	}
	p.version, p.value = now.Version, value
	return nil
}

// settle reads the stored document after an error of unknown outcome.
func (p *part) settle(ctx context.Context) error {
	was, tried := p.value, p.tried
	if _, err := p.load(ctx); err != nil {
		return err
	}
	if !bytes.Equal(p.value, was) && !bytes.Equal(p.value, tried) {
		return errTaken
	}
	return nil
}

// abandoned returns the scopes of nodes that are not alive, sorted.
func (o *Overview) abandoned(live []string) (scopes []string) {
	for scope := range o.States {
		if name, ok := strings.CutPrefix(scope, nodeScope); ok && !slices.Contains(live, name) {
			scopes = append(scopes, scope)
		}
	}
	slices.Sort(scopes)
	return scopes
}

// Gone returns the nodes that have begun, have not said that they end, and are not alive.
func (o *Overview) Gone(live []string) (names []string) {
	return slices.DeleteFunc(slices.Clone(o.Running), func(name string) bool { return slices.Contains(live, name) })
}

// readTimeout bounds each read and write of the state.
const readTimeout = 5 * time.Second
