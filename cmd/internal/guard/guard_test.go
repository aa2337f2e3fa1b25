// Package guard holds the tests that forbid: wrong edges between packages, and I/O
// where there must be none.
package guard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "grattoir/"

// file is one Go file of the project, parsed.
type file struct {
	path    string // slashes, from the root
	dir     string
	test    bool
	imports []string
	ast     *ast.File
}

func sources(t *testing.T) []file {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var list []file
	err = fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != "." {
			return errOr(err, fs.SkipDir)
		}
		if d.IsDir() && slices.Contains([]string{"bin", "bench-out", "demo-out"}, p) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, p), nil, 0)
		if err != nil {
			return err
		}
		f := file{path: p, dir: path.Dir(p), test: strings.HasSuffix(p, "_test.go"), ast: parsed}
		for _, i := range parsed.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		list = append(list, f)
		return nil
	})
	if err != nil || len(list) < 30 {
		t.Fatalf("%d files read: %v", len(list), err)
	}
	return list
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

// TestImportsFollowTheLayers: cmd -> device, sync, firmware -> validate; configs is read by cmd alone.
func TestImportsFollowTheLayers(t *testing.T) {
	allowed := map[string][]string{
		"cmd":      {"cmd", "device", "sync", "firmware", "validate", "configs"},
		"device":   {"device", "validate"},
		"sync":     {"sync", "validate"},
		"firmware": {"firmware", "validate"},
		"configs":  {"configs", "validate"},
		"validate": {"validate"},
	}
	for _, f := range sources(t) {
		top, _, _ := strings.Cut(f.dir, "/")
		layers, known := allowed[top]
		if !known {
			t.Errorf("%s: no Go files here: the top level is cmd, device, validate, sync, firmware, configs", f.path)
			continue
		}
		for _, i := range f.imports {
			inside, ours := strings.CutPrefix(i, module)
			if !ours {
				continue
			}
			to, _, _ := strings.Cut(inside, "/")
			if f.test && f.dir == "configs" && to == "validate" {
				continue
			}
			if !slices.Contains(layers, to) {
				t.Errorf("%s imports %s: %s may import only %v", f.path, i, top, layers)
			}
		}
	}
}

func TestNoFilesDirectlyInGroupFolders(t *testing.T) {
	for _, f := range sources(t) {
		if slices.Contains([]string{"device", "sync", "firmware", "cmd"}, f.dir) {
			t.Errorf("%s: %s holds packages, not files", f.path, f.dir)
		}
	}
}

func TestTheCounterImportsNoDriver(t *testing.T) {
	for _, f := range sources(t) {
		if f.dir != "device/terminal" {
			continue
		}
		for _, i := range f.imports {
			for _, driver := range []string{"scanner", "printer", "gpio", "screen", "control", "sim"} {
				if i == module+"device/"+driver {
					t.Errorf("%s imports the driver %s", f.path, i)
				}
			}
		}
	}
}

// TestValidateDoesNoIO: files, network, databases, logs and the clock stay outside
// validate. The manifest package, and only it, opens files.
func TestValidateDoesNoIO(t *testing.T) {
	forbidden := []string{"os", "net", "net/http", "database/sql", "log", "os/exec", "syscall", "golang.org/x/sys/unix"}
	for _, f := range sources(t) {
		if f.test || !within(f.dir, "validate") {
			continue
		}
		opens := within(f.dir, "validate/manifest")
		for _, i := range f.imports {
			if slices.Contains(forbidden, i) && !(opens && (i == "os" || i == "database/sql")) {
				t.Errorf("%s imports %s", f.path, i)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Now" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s asks the clock: time is a fact that is passed in", f.path)
				}
			}
			return true
		})
	}
}

// TestTerminaldCannotSeal: the program on the counter holds no code that makes
// manifests, and none of the simulated devices.
func TestTerminaldCannotSeal(t *testing.T) {
	imports := map[string][]string{}
	for _, f := range sources(t) {
		if !f.test {
			imports[f.dir] = append(imports[f.dir], f.imports...)
		}
	}
	seen := map[string]bool{}
	var walk func(dir, via string)
	walk = func(dir, via string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, bad := range []string{"validate/manifest/seal", "device/sim", "validate/game/reglement"} {
			if dir == bad {
				t.Errorf("terminald links %s, through %s", dir, via)
			}
		}
		for _, i := range imports[dir] {
			if inside, ours := strings.CutPrefix(i, module); ours {
				walk(inside, dir)
			}
		}
	}
	walk("cmd/terminald", "")
	if !seen["validate/manifest"] {
		t.Error("the walk did not reach validate/manifest: it proves nothing")
	}
}

// TestNoProgramLinksThePowerCut: the disk that loses its power is for tests. It is C
// under SQLite, and no code that pays may be able to ask for it.
func TestNoProgramLinksThePowerCut(t *testing.T) {
	users := 0
	for _, f := range sources(t) {
		for _, i := range f.imports {
			if i != module+"sync/ledger/powercut" {
				continue
			}
			if users++; !f.test {
				t.Errorf("%s imports it and is no test", f.path)
			}
		}
	}
	if users == 0 {
		t.Error("nothing imports it: this proves nothing")
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range sources(t) {
		if !f.test {
			continue
		}
		bubbled := slices.Contains(f.imports, "testing/synctest") // a sleep in a bubble takes no time
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" && !bubbled {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s sleeps: wait for the condition", f.path)
				}
			}
			return true
		})
	}
}
