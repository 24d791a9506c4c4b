package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	databases "github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/migrate"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// patience is how long a database may take, for example while a migration has its tables locked.
const patience = 30 * time.Second

// database examines a database in PostgreSQL and its tables.
func database(ctx context.Context, url, name, label string) (found Findings) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	version, err := databases.ServerVersion(ctx, url)
	switch {
	case err != nil:
		found.add(Unknown, "server", label+err.Error(), "start the database, or correct its URL")
		return found
	case version < databases.OldestServer:
		found.add(No, "server", fmt.Sprintf("%sit is PostgreSQL %d, and this version needs %d or newer", label, version, databases.OldestServer), "upgrade PostgreSQL first")
	default:
		found.add(OK, "server", fmt.Sprintf("%sit is PostgreSQL %d, and this version needs %d or newer", label, version, databases.OldestServer), "")
	}
	state, err := migrate.Target{URL: url, Schema: name}.State(ctx)
	switch {
	case errors.Is(err, schema.ErrMismatch):
		found.add(No, "tables", label+err.Error(), "")
	case ctx.Err() != nil:
		found.add(Unknown, "tables", fmt.Sprintf("%sthere was no answer within %v", label, patience), "repeat this when no other session keeps the tables locked")
	case err != nil:
		found.add(Unknown, "tables", label+err.Error(), "repeat this with a role that can read them")
	default:
		one := ofTables(state.Version(), len(schema.Migrations(name)))
		one.What = label + one.What
		found = append(found, one)
	}
	return found
}

// ofTables is the finding for tables at a version, for a program that knows migrations up to known.
func ofTables(at, known int) Finding {
	f := Finding{Check: "tables"}
	switch {
	case at == 0:
		f.Verdict, f.What, f.Do = Step, "there are no tables yet", "taskengine migrate apply of this version makes them"
	case at > known+1:
		f.Verdict, f.What = No, fmt.Sprintf("their version is %d, and this program works with %d to %d", at, known-1, known+1)
		f.Do = "run a newer version of the program"
	case at == known+1:
		f.Verdict, f.What = OK, fmt.Sprintf("a newer program has brought them to version %d, and this one, which knows %d, works with them", at, known)
	case at == known:
		f.Verdict, f.What = OK, fmt.Sprintf("their version is %d, that of this program", at)
	case at == known-1:
		f.Verdict, f.What = Step, fmt.Sprintf("their version is %d, and that of this program %d: it works with both, as the programs that run now do", at, known)
		f.Do = "taskengine migrate apply of this version, before or after the nodes are replaced"
	default:
		f.Verdict, f.What = No, fmt.Sprintf("their version is %d, and nodes of this program work with %d to %d", at, known-1, known+1)
		f.Do = "upgrade to the versions between one after the other; or stop all nodes, and run taskengine migrate apply of this version before the first one starts"
	}
	return f
}
