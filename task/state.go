package task

import (
	"fmt"
	"slices"
)

// State is the state of a task. The zero State is invalid.
type State uint8

// The states of a task. The numbers are stored and must not change.
const (
	Waiting    State = iota + 1 // its time has not come: it is delayed, or waits for its next attempt
	Submitted                   // ready to run, and waits for a slot
	Processing                  // a node has grabbed it, and its handler runs
	Done                        // its handler finished
	Error                       // out of attempts or out of time: raises an alert, and a person has to decide
	Failed                      // an error that was acknowledged
	Cancelled                   // cancelled by a user
)

// States lists every state in the order of its number.
func States() []State {
	return []State{Waiting, Submitted, Processing, Done, Error, Failed, Cancelled}
}

var stateNames = [...]string{
	Waiting: "waiting", Submitted: "submitted", Processing: "processing", Done: "done",
	Error: "error", Failed: "failed", Cancelled: "cancelled",
}

// transitions has the states that may follow each state. docs/states.md shows the same table, and a
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

// Live reports whether the engine still has work to do for a task in this state. A task in [Error]
// is not live: it runs again only if it is resumed through the API.
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
