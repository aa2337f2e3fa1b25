package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/device/control"
	"grattoir/validate"
)

// TestIdentifiedWinnerIsReadAtCentralByTwoPersons is the whole way with the real programs:
// a winner is identified at the counter, the sealed record goes up by itself, one person
// asks for it and only another one opens it, with a key that lies on neither machine.
func TestIdentifiedWinnerIsReadAtCentralByTwoPersons(t *testing.T) {
	l := openLinked(t)
	keys := filepath.Join(t.TempDir(), "keys")
	if out, err := exec.Command(l.program, "key", "new", "--name", "register", "--register", "--out", keys).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path := filepath.Join(l.Dir, "terminald.toml")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := "register.key = \"" + filepath.Join(keys, "register.pub") + "\"\n" + strings.Replace(string(config), "claim_days = 30", "claim_days = 30\nidentity_total_over_minor = 3000", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 && st.Register == nil })
	batch := l.batch(t, l.codes["2000"][0], l.codes["2000"][1])
	winner := &validate.Identification{Surname: "Martin", FirstNames: "Jeanne", Born: "1970-05-12", BirthPlace: "Brest", Address: "1 rue de Siam, 29200 Brest",
		Document: "passport", Number: "12AB34567", IssuedBy: "préfecture du Finistère"}
	if paid, err := l.Client.PayBatch(ctx, batch.ID, true, winner); err != nil || !paid.Paid {
		t.Fatalf("%+v %v", paid, err)
	}
	l.await(t, func(st control.Status) bool { return st.Link.Entries == 0 })

	var asked struct{ Number, Records int64 }
	for { // the record is a lane of its own
		out, err := exec.Command(l.program, "identity", "ask", "T-1", "1-000001", "--operator", "claire", "--reason", "test", "--data", l.central.Dir, "--json").Output()
		if err == nil {
			if err := json.Unmarshal(out, &asked); err != nil {
				t.Fatal(err)
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the record does not arrive")
		}
	}
	key := filepath.Join(keys, "register.key")
	show := func(operator string) ([]byte, int) {
		out, err := exec.Command(l.program, "identity", "show", "1", "--operator", operator, "--key", key, "--data", l.central.Dir).Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return out, exit.ExitCode()
		}
		return out, 0
	}
	if out, code := show("claire"); code != 4 || len(out) != 0 {
		t.Fatalf("who asked has opened it: %d\n%s", code, out)
	}
	out, code := show("denis")
	for _, want := range []string{"Martin, Jeanne", "born 1970-05-12, Brest", "passport 12AB34567", "terminal T-1"} {
		if code != 0 || !strings.Contains(string(out), want) {
			t.Fatalf("exit %d, without %q:\n%s", code, want, out)
		}
	}
	var audit struct {
		Lines int
		Acts  []struct{ Act, Operator string }
	}
	l.run(t, &audit, "identity", "audit")
	if audit.Lines != 2 || audit.Acts[0].Act != "ask" || audit.Acts[1].Act != "open" || audit.Acts[1].Operator != "denis" {
		t.Fatalf("%+v", audit)
	}
	var erased struct{ Erased int }
	if l.run(t, &erased, "identity", "erase"); erased.Erased != 0 {
		t.Fatal("erased before its term")
	}
	logs, err1 := os.ReadFile(l.LogPath())
	other, err2 := os.ReadFile(l.central.Dir + ".log")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"Martin", "12AB34567", "rue de Siam"} {
		if strings.Contains(string(logs)+string(other), secret) {
			t.Errorf("a log has %q", secret)
		}
	}
}
