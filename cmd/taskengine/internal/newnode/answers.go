// Package newnode writes the configuration of a new node, with the beginnings of a handler program.
package newnode

import (
	"net"
	"regexp"
	"slices"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/scaffold"
)

// The storages that a new node may have, by the names of their drivers.
const (
	Pebble   = "pebble"
	Bolt     = "bolt"
	Postgres = "postgres"
)

// NoHandler is the handler of a node that is to run no tasks yet.
const NoHandler = "none"

// Answers say how a new node is configured.
type Answers struct {
	Storage string // Pebble, Bolt or Postgres
	Path    string // the folder of Pebble and Bolt
	URLEnv  string // the environment variable that has the URL of Postgres
	Several bool   // several nodes share the database
	Handler string // NoHandler or a language of package scaffold
	Name    string // of the handler, its folder and its type
	Listen  string // the address of the API
	Tokens  bool   // clients need tokens
}

// Storages returns the storages, the usual one first.
func Storages() []string { return []string{Pebble, Bolt, Postgres} }

// Handlers returns NoHandler and the languages of handlers.
func Handlers() []string { return append([]string{NoHandler}, scaffold.Languages()...) }

// Complete gives the missing answers their defaults. The default of Tokens depends on Listen: see [NeedsTokens].
func (a *Answers) Complete() {
	for _, one := range []struct {
		answer *string
		usual  string
		needed bool
	}{
		{&a.Storage, Pebble, true},
		{&a.Path, "./data", a.Storage != Postgres},
		{&a.URLEnv, "DATABASE_URL", a.Storage == Postgres},
		{&a.Handler, NoHandler, true},
		{&a.Name, "hello", a.Handler != "" && a.Handler != NoHandler},
		{&a.Listen, a.UsualListen(), true},
	} {
		if one.needed && *one.answer == "" {
			*one.answer = one.usual
		}
	}
}

// UsualListen returns the default of Listen: other machines reach one of several nodes.
func (a *Answers) UsualListen() string {
	if a.Several {
		return ":7420"
	}
	return "127.0.0.1:7420"
}

// NeedsTokens reports whether other machines can reach the API at an address, so that its clients need tokens.
func NeedsTokens(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback())
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check returns an error if answers contradict each other, or are none of the choices. The check of the configuration finds the rest.
func (a *Answers) check() error {
	switch {
	case !slices.Contains(Storages(), a.Storage):
		return exit.Errorf(exit.Usage, "the storage %.40q is none of pebble, bolt and postgres", a.Storage)
	case !slices.Contains(Handlers(), a.Handler):
		return exit.Errorf(exit.Usage, "the handler %.40q is none of %q", a.Handler, Handlers())
	case a.Storage == Postgres && a.Path != "":
		return exit.Errorf(exit.Usage, "postgres has no folder: leave out the path")
	case a.Storage != Postgres && a.URLEnv != "":
		return exit.Errorf(exit.Usage, "%s has no database: leave out the variable of its URL, or choose postgres", a.Storage)
	case a.Storage != Postgres && a.Several:
		return exit.Errorf(exit.Usage, "only nodes on postgres share their tasks, and one node alone can use a folder: choose postgres")
	case a.Storage == Postgres && !variableName.MatchString(a.URLEnv):
		// The answer may be the URL, and is not repeated.
		return exit.Errorf(exit.Usage, "the variable of the URL is no name of an environment variable: name one, such as DATABASE_URL, and not the URL itself, since a password in it would be written to the file")
	case a.Handler == NoHandler && a.Name != "":
		return exit.Errorf(exit.Usage, "there is no handler that could be named %.80q: choose its language", a.Name)
	case a.Handler != NoHandler:
		return scaffold.CheckName(a.Name)
	}
	return nil
}
