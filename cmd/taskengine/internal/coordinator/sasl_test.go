//go:build unix

package coordinator

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/zktest"
)

func TestAFileWithSASLOpensACoordinatorThatDemandsIt(t *testing.T) {
	servers, err := zktest.Start(1, zktest.WithUsers(map[string]string{"app": "secret"}), zktest.WithLines("sessionRequireClientSASLAuth=true"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	open := func(t *testing.T, rest string) (opened Connection, err error) {
		t.Helper()
		file := fileOf(t, config.ZooKeeper, servers.Endpoints(), rest)
		for range 10 { // a server that has just started may be slow
			opened, err = Open(t.Context(), file, Use{Log: slog.New(slog.DiscardHandler)})
			if err == nil || errors.Is(err, coord.ErrRefused) {
				break
			}
		}
		return opened, err
	}
	opened, err := open(t, ", user: app, password: secret, auth: sasl")
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	for name, rest := range map[string]string{
		"a wrong password":  ", user: app, password: wrong, auth: sasl",
		"the scheme digest": ", user: app, password: secret",
		"no user":           "",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := open(t, rest); !errors.Is(err, coord.ErrRefused) {
				t.Errorf("the error is %v, want a refusal", err)
			}
		})
	}
}
