package secret_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/coord/secret"
)

func get(t *testing.T, s *secret.Secret, anew bool) []byte {
	t.Helper()
	value, err := s.Get(t.Context(), anew)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestNodesOfAClusterHaveOneSecretForEachName(t *testing.T) {
	settings := local.New()
	a := get(t, secret.New(settings, "a"), false)
	if b := get(t, secret.New(settings, "a"), false); !bytes.Equal(a, b) || len(a) < 32 {
		t.Errorf("two nodes have %q and %q", a, b)
	}
	if other := get(t, secret.New(settings, "b"), false); bytes.Equal(a, other) {
		t.Errorf("two secrets are %q", a)
	}
}

// forgetful are settings that lose their contents.
type forgetful struct{ coord.Config }

func TestASecretThatWasRemovedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := &forgetful{local.New()}
		s := secret.New(settings, "a")
		before := get(t, s, false)
		settings.Config = local.New()
		if got := get(t, s, true); !bytes.Equal(before, got) {
			t.Error("it is read twice within a second")
		}
		time.Sleep(time.Second)
		if got := get(t, s, false); !bytes.Equal(before, got) {
			t.Error("it is read though nothing is wrong")
		}
		if got := get(t, s, true); bytes.Equal(before, got) {
			t.Error("it is not read again")
		}
	})
}

// silent are settings that do not answer.
type silent struct{ coord.Config }

func (silent) Settings(context.Context, string) ([]coord.Setting, error) {
	return nil, errors.New("no answer")
}

func TestASecretThatCannotBeReadIsAnError(t *testing.T) {
	if _, err := secret.New(silent{}, "a").Get(t.Context(), false); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("it gives %v", err)
	}
	settings := local.New()
	if _, _, err := settings.Swap(t.Context(), "a", "", 0, []byte("short")); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.New(settings, "a").Get(t.Context(), false); err == nil || !strings.Contains(err.Error(), "the setting a is damaged; remove it") {
		t.Errorf("a damaged one gives %v", err)
	}
}
