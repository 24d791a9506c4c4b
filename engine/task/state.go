package task

import (
	"fmt"
	"slices"
)

// State says where a task is on its way. The zero State is no state.
type State uint8

// The states of a task. The numbers are stored: never renumber them.
const (
	Waiting    State = iota + 1 // has a time to come, or awaits a signal
	Submitted                   // ready to run, waits for a slot
	Processing                  // a node has grabbed it and its handler runs
	Done                        // its handler finished
	Error                       // it ran out of attempts or time: needs a person, alerts
	Failed                      // an error that somebody acknowledged
	Cancelled                   // somebody no longer wanted it
)

// States lists every state in the order of its number.
func States() []State {
	return []State{Waiting, Submitted, Processing, Done, Error, Failed, Cancelled}
}

var stateNames = [...]string{
	Waiting: "waiting", Submitted: "submitted", Processing: "processing", Done: "done",
	Error: "error", Failed: "failed", Cancelled: "cancelled",
}

// transitions is the one table of what may follow what. docs/states.md shows it and a
// test compares the two.
var transitions = map[State][]State{
	Waiting:    {Waiting, Submitted, Processing, Error, Failed, Cancelled},
	Submitted:  {Waiting, Processing, Error, Failed, Cancelled},
	Processing: {Waiting, Submitted, Done, Error, Failed, Cancelled},
	Done:       {},
	Error:      {Waiting, Submitted, Failed, Cancelled},
	Failed:     {Submitted},
	Cancelled:  {Submitted},
}

// String returns the state's lower-case name.
func (s State) String() string {
	if !s.Valid() {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// ParseState is the inverse of [State.String].
func ParseState(name string) (State, bool) {
	i := slices.Index(stateNames[1:], name)
	return State(i + 1), i >= 0
}

// Valid reports whether s is one of the states above.
func (s State) Valid() bool { return s >= Waiting && s <= Cancelled }

// Live reports whether the engine still has work to do for a task in this state. A
// task in [Error] is not live: only a person can bring it back.
func (s State) Live() bool { return s == Waiting || s == Submitted || s == Processing }

// CanBecome reports whether a task in state s may be changed to state next.
func (s State) CanBecome(next State) bool { return slices.Contains(transitions[s], next) }

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) {
	if !s.Valid() {
		return nil, fmt.Errorf("%v is not a state", s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(text []byte) error {
	parsed, ok := ParseState(string(text))
	if !ok {
		return fmt.Errorf("%.40q is not a state (want one of %v)", text, stateNames[1:])
	}
	*s = parsed
	return nil
}
