package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// suiteChecks returns the checks for the conformance programs of SDKs.
func suiteChecks() []check {
	return slices.Concat(payloadChecks(), answerChecks(), rerunChecks(), endedChecks(), cancelChecks(), reportChecks(), waitChecks(), familyChecks(), checkChecks(), documentChecks(), afterChecks(), crowdChecks())
}

// in returns a check of the suite that uses tasks of type typ in a session of kind k.
func in(k kind, typ, name, asks string, see func(*session) error) check {
	return check{
		name: name, asks: asks, suite: typ, needs: []string{returnsCredits},
		see: func(x *exam) error {
			s, err := x.use(k)
			if err != nil {
				return err
			}
			return see(s)
		},
	}
}

// alone is in for checks that end their session.
func alone(k kind, typ, name, asks string, see func(*exam, *session) error) check {
	return greeted(k.welcome, typ, name, asks, see)
}

// greeted is alone for checks of a program that gets this welcome.
func greeted(welcome func() *wire.Welcome, typ, name, asks string, see func(*exam, *session) error) check {
	return check{
		name: name, asks: asks, suite: typ, needs: []string{returnsCredits},
		see: func(x *exam) error {
			s, err := x.open(welcome())
			if err != nil {
				return err
			}
			defer x.endSession(s)
			return see(x, s)
		},
	}
}

// ofHosts makes c a check of programs that a host has started.
func ofHosts(c check) check {
	c.ofHosts = true
	return c
}

// result runs a task that should succeed, and returns its result.
func (s *session) result(typ string, payload []byte) ([]byte, error) {
	f, err := s.do(newRun(typ, payload))
	if err != nil {
		return nil, err
	}
	return resultOf(f)
}

// resultOf returns the result in a finish, or an error if it has none.
func resultOf(f *wire.Finish) ([]byte, error) {
	if o, ok := f.GetOutcome().(*wire.Finish_Result); ok {
		return o.Result, nil
	}
	return nil, fmt.Errorf("instead of a result came {%.300v}", f)
}

// failure runs a task that should fail, and returns its error.
func (s *session) failure(typ, payload string) (*wire.Error, error) {
	f, err := s.do(newRun(typ, []byte(payload)))
	if err != nil {
		return nil, err
	}
	return failureOf(f)
}

// failureOf returns the error in a finish, or an error if it has none.
func failureOf(f *wire.Finish) (*wire.Error, error) {
	if e := f.GetError(); e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("instead of an error came {%.300v}", f)
}

// retryable returns an error unless e contains text and asks for a retry with the delay of the policy.
func retryable(e *wire.Error, text string) error {
	if e.GetPermanent() || e.RetryDelay != nil || !strings.Contains(e.GetMessage(), text) {
		return fmt.Errorf("the error is {%.300v}, wanted is one with %q that is not permanent and has no delay of its own", e, text)
	}
	return nil
}
