package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// storage refuses keys of other drivers than the chosen one, and reports required keys that are
// missing. The driver memory accepts all keys, so that any file can be tried with
// --set storage.driver=memory.
func (d *decoder) storage() {
	driver := []string{"storage", "driver"}
	written := d.cfg.tree.find("storage")
	if d.found.at(d.cfg.tree.locate(driver)) && written.child("driver") != nil {
		return // the driver is not known
	}
	d.coordination()
	switch chosen := d.cfg.Storage.Driver; {
	case chosen == Postgres:
		if written.child("path") != nil {
			d.conflict([]string{"storage", "path"},
				"postgres has no folder: its database is storage.url; remove it, or write task_log.path if it is for the logs of tasks")
		}
		if written.child("url") == nil {
			d.conflict(driver, "postgres needs storage.url, such as "+exampleURL)
		}
		d.different()
	case chosen.InFiles():
		for _, key := range []string{"url", "databases", "schema"} {
			if written.child(key) != nil {
				d.conflict([]string{"storage", key}, "belongs to the driver postgres; remove it, or write driver: postgres")
			}
		}
	}
}

// different refuses duplicate databases.
func (d *decoder) different() {
	seen := map[string]string{d.cfg.Storage.URL.Reveal(): "url"}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Storage.Databases)) {
		url := d.cfg.Storage.Databases[name].Reveal()
		if other := seen[url]; other != "" && url != "" {
			d.conflict([]string{"storage", "databases", name}, "is the same database as storage."+other+"; each holds a part of the tasks")
		}
		seen[url] = "databases." + name
	}
}

// Main is the name of the database of storage.url if there are others.
const Main = "main"

// isPartName accepts the name of one of the other databases.
func isPartName(s string) error {
	if s == Main {
		return errors.New("is the name of the database of storage.url; write another name")
	}
	return isName(s)
}

const exampleURL = "postgres://taskengine@db.example.com/tasks"

// databaseURL is the URL of a PostgreSQL database. A password in it is not shown anywhere.
type databaseURL struct {
	or string // a word that is allowed, too
}

func (u databaseURL) decode(d *decoder, n *node, into any) {
	target := into.(*Text)
	secret("the URL of a database", func(s string) error {
		if u.or != "" && s == u.or {
			return nil
		}
		return CheckDatabaseURL(s)
	}).decode(d, n, target)
	if hidden := hidePasswords(target.value); target.shown == "" && hidden != target.value {
		target.shown = hidden
	}
}

func (databaseURL) words() string    { return "a URL, such as " + exampleURL }
func (databaseURL) schema() document { return orReference(document{"type": "string"}) }

// severalHosts matches the URL of a database with several servers, each with or without a port.
// libpq supports that, and package url does not.
var severalHosts = regexp.MustCompile(`^(\w+://(?:[^/?#@]*@)?)[^/?#@]*,[^/?#@]*([/?#]|$)`)

// CheckDatabaseURL returns an error if s is not the URL of a PostgreSQL database. It does not
// check the options of the driver. The error completes a sentence about the URL and does not
// quote it.
func CheckDatabaseURL(s string) error {
	const advice = "; write it such as " + exampleURL
	u, err := url.Parse(severalHosts.ReplaceAllString(s, "${1}host$2"))
	switch {
	case err != nil && strings.Contains(s, "://"):
		return errors.New("is a URL that cannot be read; write special characters of a user or a password as %-codes, such as %40 for @")
	case err != nil || u.Scheme == "":
		return errors.New("is no URL" + advice)
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return fmt.Errorf("is a URL of %.40q and not of postgres%s", u.Scheme, advice)
	}
	return nil
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// CheckSchemaName returns an error if s cannot be the schema of the tables. It must be a name that
// needs no quotes in SQL and that PostgreSQL does not reserve.
func CheckSchemaName(s string) error {
	switch {
	case !schemaName.MatchString(s):
		return fmt.Errorf("%.40q is no name for a schema; write small letters, digits and _, at most 63 and no digit first", s)
	case strings.HasPrefix(s, "pg_"), s == "information_schema":
		return fmt.Errorf("%s is a name that PostgreSQL keeps for itself; write another one, such as taskengine", s)
	}
	return nil
}
