package central

import (
	"os"
	"testing"

	"grattoir/sync/central/pgtest"
)

// server is this binary's PostgreSQL, started by the first test that wants it.
var server pgtest.Shared

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// stores are the databases that central's promises are kept on. Forced to SERIALIZABLE,
// PostgreSQL refuses every transaction that could not have run alone, as distributed
// databases do each day.
func stores() []struct {
	name     string
	database func(testing.TB) string
} {
	return []struct {
		name     string
		database func(testing.TB) string
	}{
		{"sqlite", func(testing.TB) string { return "" }},
		{"postgres", func(t testing.TB) string { return server.Database(t, nil) }},
		{"serializable", func(t testing.TB) string {
			return server.Database(t, map[string]string{"default_transaction_isolation": "serializable"})
		}},
	}
}

// onEachStore runs a test of the conformance suite: all that central promises of what it
// keeps, on each database, in a world of its own.
func onEachStore(t *testing.T, test func(*testing.T, *world)) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorldOn(t, s.database(t)))
		})
	}
}
