// Package access decides what a caller of the API may do, by the roles and the task types of its token.
package access

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/pattern"
)

// Role is a set of rights of a token.
type Role string

// The roles. Admin includes the others, Operate includes Submit and Manage, and each of these two includes View.
const (
	View    Role = "view"    // see tasks without their content
	Submit  Role = "submit"  // add tasks, and read them with their content, but for redacted values
	Work    Role = "work"    // run tasks as a worker
	Manage  Role = "manage"  // see tasks without their content, and change tasks, keys, types, limits, schedules and alerts that exist
	Operate Role = "operate" // do the same, and add and read tasks
	Reveal  Role = "reveal"  // see redacted values, where another role shows content
	Admin   Role = "admin"   // everything
)

// Roles returns the roles, the smallest first.
func Roles() []Role { return []Role{View, Submit, Work, Manage, Operate, Reveal, Admin} }

// includes reports whether a role allows everything that other allows.
func (r Role) includes(other Role) bool {
	switch r {
	case other, Admin:
		return true
	case Operate:
		return other == Submit || other == Manage || other == View
	case Submit, Manage:
		return other == View
	}
	return false
}

// Token describes a token, without its text.
type Token struct {
	Name    string    // unique, for people
	Hash    Hash      // of its text
	Roles   []Role    // at least one
	Types   []string  // of tasks; * at the end of one stands for all that begin so; empty: all types
	Created time.Time // to be read
	Expires time.Time // zero: never
}

// May reports whether the token has a role, or one that includes it.
func (t *Token) May(r Role) bool {
	return slices.ContainsFunc(t.Roles, func(has Role) bool { return has.includes(r) })
}

// ManagesTokens reports whether the token may make and revoke tokens.
func (t *Token) ManagesTokens() bool { return t.May(Admin) && t.IsForAll() }

// IsOver reports whether the token has expired at a time.
func (t *Token) IsOver(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// IsForAll reports whether the token is for all types.
func (t *Token) IsForAll() bool { return len(t.Types) == 0 }

// IsFor reports whether the token is for a type of tasks.
func (t *Token) IsFor(typ string) bool {
	return t.IsForAll() || pattern.AnyMatches(t.Types, typ)
}

// Check returns an error if the token cannot be as it is. The error completes a sentence about it.
func (t *Token) Check() error {
	if err := checkName(t.Name); err != nil {
		return err
	}
	if len(t.Roles) == 0 {
		return fmt.Errorf("has no role; give one of %s", roleNames())
	}
	for _, r := range t.Roles {
		if !slices.Contains(Roles(), r) {
			return fmt.Errorf("has the role %.40q, which is none of %s", r, roleNames())
		}
	}
	for _, pattern := range t.Types {
		if begin := strings.TrimSuffix(pattern, "*"); pattern == "" || strings.Contains(begin, "*") {
			return fmt.Errorf("is for the type %.40q; write the name of a type, or its beginning and one * at the end", pattern)
		}
	}
	return nil
}

func roleNames() string {
	names := make([]string, 0, len(Roles()))
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// checkName accepts names that logs and tables can show without quotes.
func checkName(name string) error {
	const longest = 100
	isOdd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-@", r)
	}
	if name == "" || len(name) > longest || strings.ContainsFunc(name, isOdd) || name == Local || name == Unknown {
		return fmt.Errorf("has the name %.40q; use 1 to %d letters, digits, and . _ - @, and neither %s nor %s", name, longest, Local, Unknown)
	}
	return nil
}

// Names of callers that have no token.
const (
	Local   = "local"   // on the Unix socket
	Unknown = "unknown" // elsewhere, on nodes that want no tokens
)
