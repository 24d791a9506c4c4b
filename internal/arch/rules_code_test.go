//go:build !race

package arch_test

// deterministic packages decide, so they do no I/O and do not wait: time and chance are passed
// in. Forbidden are whole packages, and the functions of package time that read a clock or wait.
var deterministic = []string{"coord/guid/internal/election", "bulk", "engine/internal/core", "engine/internal/shell", "engine/internal/table", "engine/internal/window", "policy", "schedule", "schedule/calendar", "timeslice"}

var (
	forbiddenImports = []string{"context", "crypto/rand", "database/sql", "io", "log", "log/slog", "net", "os", "sync", "sync/atomic", "syscall"}
	allowedOfRand    = []string{"Rand", "Source", "New", "NewPCG", "NewChaCha8", "NewSource", "PCG", "ChaCha8"}
	forbiddenOfTime  = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

// Sizes beyond which a file stops being readable. Generated files are exempt.
const maxFileLines = 600
