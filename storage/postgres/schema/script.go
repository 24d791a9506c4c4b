package schema

import (
	"fmt"
	"strings"
)

// Script returns SQL that does what [Migrate] does for the given migrations of a schema,
// which follow each other: for people who let no program change their tables. It refuses
// to run on a database that has others than those before the first of them.
func Script(schema string, ms []Migration) string {
	if len(ms) == 0 {
		return ""
	}
	fill := Fill(schema)
	var b strings.Builder
	fmt.Fprintf(&b, "begin isolation level read committed;\n\n-- Those who run taskengine migrate apply wait.\ndo $$ begin perform pg_advisory_xact_lock(%d); end $$;\n", Lock("migrate", schema))
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
	b.WriteString("\ncommit;\n")
	return b.String()
}
