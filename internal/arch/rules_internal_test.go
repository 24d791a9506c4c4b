//go:build !race

package arch_test

// internalRules are the rules of the packages below internal, which any part may use.
var internalRules = []rule{
	{
		Of:  "internal/workpool",
		Why: "a pool of goroutines does not depend on the work",
	},
	{
		Of:  "internal/place",
		Why: "a value of a task or record is read alike whatever it is for",
	},
	{
		Of:  "internal/wakeup",
		Why: "a signal knows nothing of the work that it announces",
	},
	{
		Of:  "internal/units",
		May: []string{"internal/suggest"},
		Why: "numbers are read and written alike wherever they come from",
	},
	{
		Of:  "internal/chart",
		Why: "drawings know nothing of where their numbers come from",
	},
	{
		Of:  "internal/suggest",
		Why: "a name is looked for alike wherever it may be misspelled",
	},
	{
		Of:  "internal/pattern",
		Why: "a pattern stands for the same names wherever it is configured",
	},
	{
		Of:  "internal/objective",
		Why: "an objective is read alike whatever is measured or planned by it",
	},
	{
		Of:  "internal/ratelog",
		Why: "how often a line may be logged does not depend on what it says",
	},
	{
		Of:  "internal/terminal",
		Why: "text is made safe for a terminal wherever it comes from",
	},
	{
		Of:  "internal/supervise",
		Out: []string{"golang.org/x/sys"},
		Why: "a process is supervised whatever it does",
	},
	{
		Of:  "internal/pgtest",
		May: []string{"internal/freeze", "internal/servertest"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "a server for tests does not depend on the tests",
	},
	{
		Of:  "internal/pgsession",
		Out: []string{"github.com/jackc/pgx"},
		Why: "a session is set up alike whatever it is used for",
	},
	{
		Of:  "internal/pglocks",
		May: []string{"storage"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "who holds locks is found out alike whatever waits",
	},
	{
		Of:  "internal/wiretest",
		Why: "a network passes on bytes, whatever they mean",
	},
	{
		Of:  "internal/freeze",
		Why: "tests of all kinds stop processes",
	},
	{
		Of:  "internal/npmtest",
		Why: "tests of all kinds use packages of npm",
	},
	{
		Of:  "internal/oidctest",
		May: []string{"internal/npmtest"},
		Why: "a provider for tests does not depend on the pages",
	},
	{
		Of:  "internal/browsertest",
		May: []string{"internal/npmtest"},
		Why: "a browser for tests does not depend on the pages",
	},
	{
		Of:  "internal/docpages",
		Why: "the documentation is read without the things that it is about",
	},
	{
		Of:  "internal/servertest",
		Why: "processes for tests do not depend on the tests",
	},
	{
		Of:  "internal/zktest",
		May: []string{"internal/freeze", "internal/servertest"},
		Why: "a server for tests does not depend on the tests",
	},
	{
		Of:  "internal/certtest",
		Why: "certificates for tests do not depend on the tests",
	},
	{
		Of:  "internal/reserved",
		Why: "who owns what is reserved depends on nothing",
	},
	{
		Of:  "internal/redact",
		Why: "what is redacted of a document is decided without a server and a configuration",
	},
	{
		Of:  "internal/access",
		May: []string{"internal/pattern"},
		Why: "who may do what is decided without a server, and tokens are changed without a node",
	},
	{
		Of:  "internal/tlsfiles",
		Why: "certificates are read alike on both sides of a connection",
	},
	{
		Of:  "internal/etcdtest",
		May: []string{"internal/freeze", "internal/servertest"},
		Why: "a server for tests does not depend on the tests",
	},
	{
		Of:  "internal/kafkatest",
		May: []string{"internal/freeze", "internal/servertest"},
		Out: []string{"github.com/twmb/franz-go"},
		Why: "a server for tests does not depend on the tests",
	},
}
