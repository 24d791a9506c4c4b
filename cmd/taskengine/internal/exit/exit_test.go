package exit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/config"
)

func TestEachErrorHasItsExitCode(t *testing.T) {
	cause := errors.New("cause")
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"no error":            {nil, OK},
		"any error":           {cause, Failure},
		"a named code":        {Errorf(NotFound, "task: %w", cause), NotFound},
		"a wrapped code":      {fmt.Errorf("while %w", With(Conflict, cause)), Conflict},
		"a code without text": {With(Signal+15, nil), 143},
		"a configuration":     {&config.Errors{}, Config},
		"a passed deadline":   {fmt.Errorf("wait: %w", context.DeadlineExceeded), Unavailable},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if err := Errorf(Usage, "what: %w", cause); !errors.Is(err, cause) || err.Error() != "what: cause" {
		t.Errorf("the error is %v", err)
	}
}
