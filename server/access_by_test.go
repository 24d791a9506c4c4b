package server

import (
	"context"
	"strings"
	"testing"
)

func TestWhoChangesALimitIsTheTokenAndThenWhatTheClientSays(t *testing.T) {
	long := strings.Repeat("é", maxBy/2)
	for _, c := range []struct{ token, said, want string }{
		{"", "ann", "ann"},
		{"", "", ""},
		{"ops", "", "ops"},
		{"ops", "ops", "ops"},
		{"ops", "the boss", "ops (the boss)"},
		{"ops", long, "ops (" + long[:maxBy-6] + ")"},
		{"ops", long + "é", long + "é"}, // which is refused
	} {
		ctx := t.Context()
		if c.token != "" {
			ctx = context.WithValue(ctx, callerKey{}, &caller{name: c.token})
		}
		if got := byOf(ctx, c.said); got != c.want {
			t.Errorf("%q of the token %q is %q, want %q", c.said, c.token, got, c.want)
		}
	}
}
