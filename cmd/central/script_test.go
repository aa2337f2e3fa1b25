package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"grattoir/sync/central/pgtest"
)

// TestMain makes the test binary serve as central, so that scripts run the real
// command line.
func TestMain(m *testing.M) {
	testscript.Main(withServer{m}, map[string]func(){"central": main})
}

// server is the tests' PostgreSQL, started by the first test that wants it.
var server pgtest.Shared

// withServer stops it after the tests.
type withServer struct{ *testing.M }

func (m withServer) Run() int { return server.Main(m.M) }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: map[string]func(*testscript.TestScript, bool, []string){"mode": mode}})
}

// mode PERM FILE... holds the files' permissions against PERM, in octal.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args[1:] {
		info, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", name, got, args[0])
		}
	}
}
