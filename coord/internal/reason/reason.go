// Package reason has errors of coordinators with a remedy, and finds out why servers refuse connections.
package reason

import (
	"fmt"

	"github.com/taskengine/taskengine/coord"
)

// Error is an error that a person can do something about.
type Error struct {
	What    string // the fault, its place, and the remedy
	Refused bool   // the error is a [coord.ErrRefused]
	Cause   error  // nil if there is none beside
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return e.What
	}
	return fmt.Sprintf("%s (%v)", e.What, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is implements what [errors.Is] asks for.
func (e *Error) Is(target error) bool { return e.Refused && target == coord.ErrRefused }
