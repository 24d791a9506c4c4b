package cli

import "testing"

func TestAnAnswerSaysHowManyTasksWereReadOfHowMany(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		read, total int64
		index       string
	}{
		"no tasks were read":                                                       {0, 0, ""},
		"counted by the index of error.kind":                                       {0, 0, "error.kind"},
		"tasks of all states that were read: 50 of 200":                            {50, 200, ""},
		"tasks of all states that were read: 50 (how many there are is not known)": {50, 0, ""},
		"tasks that were read by the index of state: 50 of 200":                    {50, 200, "state"},
		"tasks that were read by the index of key: 1":                              {1, 0, "key"},
	} {
		if got := howFound(c.read, c.total, c.index); got != want {
			t.Errorf("got %q, not %q", got, want)
		}
	}
}
