package scanner

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestGuideHasEveryCode reads the constants of fault.go: a fault that is added there and
// not to the guide would be shown with a code that nobody can look up.
func TestGuideHasEveryCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Code") && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				code, _ := strconv.Unquote(value.Value)
				declared[code] = true
			}
		}
		return true
	})
	if len(declared) < 9 {
		t.Fatalf("%d constants read: this proves nothing", len(declared))
	}
	for _, f := range Faults() {
		if !declared[f.Code] || f.Technician == "" || f.ClerkFR == "" || f.ClerkEN == "" {
			t.Errorf("%s is told twice, is no constant or lacks words: %+v", f.Code, f)
		}
		delete(declared, f.Code)
	}
	for code := range declared {
		t.Errorf("%s is not in the guide", code)
	}
}
