package schema

import (
	"fmt"
	"strings"
)

// Script returns SQL that does what [Migrate] does for consecutive migrations of a schema, for
// operators that do not let a program change their tables. The SQL fails on a database that does
// not have exactly the migrations before the first of them.
//
// The last one is that of this program: its functions follow.
func Script(schema string, ms []Migration) string { return own(schema).script(schema, ms) }

func (r release) script(schema string, ms []Migration) string {
	if len(ms) == 0 {
		return ""
	}
	fill := Fill(schema)
	var b strings.Builder
	fmt.Fprintf(&b, "begin isolation level read committed;\n\n-- taskengine migrate apply waits for this transaction.\ndo $$ begin perform pg_advisory_xact_lock(%d); end $$;\n", Lock("migrate", schema))
	b.WriteString(fill(beforeMigrations) + "\n")
	b.WriteString(fill(fmt.Sprintf(`
do $$
begin
	if (select coalesce(max(version), 0) from {migration}) <> %d then
		raise exception 'these migrations begin after version %[1]d, and the tables are at version %%', (select coalesce(max(version), 0) from {migration});
	end if;
end
$$;
`, ms[0].Version-1)))
	for _, m := range ms {
		fmt.Fprintf(&b, "\n-- Version %d: %s\n\n%s\n", m.Version, m.Name, strings.TrimSpace(m.SQL))
		fmt.Fprintf(&b, "\n"+fill("insert into {migration} (version, name) values (%d, '%s');\n"), m.Version, strings.ReplaceAll(m.Name, "'", "''"))
	}
	fmt.Fprintf(&b, "\n%s\n%s;\n\ncommit;\n", strings.TrimSpace(r.functions), fmt.Sprintf(fill(noteFunctions), r.fingerprint()))
	return b.String()
}
