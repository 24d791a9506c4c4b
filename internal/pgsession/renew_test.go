package pgsession_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgsession"
)

func TestRenewTakesWhatWasReplacedAndKeepsTheRest(t *testing.T) {
	passfile := filepath.Join(t.TempDir(), "pass")
	write := func(password string) {
		if err := os.WriteFile(passfile, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	t.Setenv("PGPASSFILE", passfile)
	const first = "postgres://u@h1:1,h2:2/d?application_name=a"
	config, err := pgx.ParseConfig(first)
	if err != nil {
		t.Fatal(err)
	}
	write("two")
	for name, test := range map[string]struct {
		text           string
		err            error
		user, password string
	}{
		"a passfile that has changed": {text: first, user: "u", password: "two"},
		"another user and password":   {text: "postgres://v:three@h1:1,h2:2/d", user: "v", password: "three"},
		"other servers":               {text: "postgres://v:three@elsewhere/other?application_name=b&pool_max_conns=3", user: "v", password: "three"},
		"a file that is gone":         {err: errors.New("no file"), user: "u", password: "one"},
		"half of a string":            {text: "postgres://u:%", user: "u", password: "one"},
	} {
		c := config.Copy()
		if err := pgsession.Renew(func() (string, error) { return test.text, test.err })(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.User != test.user || c.Password != test.password {
			t.Errorf("%s: %s with %s, want %s with %s", name, c.User, c.Password, test.user, test.password)
		}
		if c.Host != "h1" || c.Database != "d" || c.RuntimeParams["application_name"] != "a" {
			t.Errorf("%s: host %s, database %s, %v", name, c.Host, c.Database, c.RuntimeParams)
		}
	}
}
