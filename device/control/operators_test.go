package control

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"

	"grattoir/device/terminal"
	"grattoir/validate/money"
)

// fakeRoster keeps what it was asked.
type fakeRoster struct {
	asked []OperatorChange
	err   error
}

func (f *fakeRoster) Operators(context.Context) ([]Operator, error) {
	return []Operator{{ID: "anne", Name: "Anne", Role: "manager"}}, f.err
}

func (f *fakeRoster) Change(_ context.Context, c OperatorChange) error {
	f.asked = append(f.asked, c)
	return f.err
}

// TestOperatorsGoThroughTheSocket: an act arrives as it was sent, and a refusal with its code.
func TestOperatorsGoThroughTheSocket(t *testing.T) {
	ctx := context.Background()
	r := &fakeRoster{}
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: Handler(Options{Language: money.English, Roster: r})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	c := NewClient(path)
	if list, err := c.Operators(ctx); err != nil || len(list) != 1 || list[0].ID != "anne" {
		t.Fatalf("%+v %v", list, err)
	}
	q := OperatorChange{Act: AddOperator, ID: "07", Name: "Luc", Role: "clerk", PIN: "9264", By: "anne", ByPIN: "4718"}
	if err := c.ChangeOperator(ctx, q); err != nil || len(r.asked) != 1 || r.asked[0] != q {
		t.Fatalf("%+v %v", r.asked, err)
	}
	r.err = &terminal.Denied{Fault: terminal.Fault{Code: "O8"}, Err: errors.New("wrong")}
	var denied *terminal.Denied
	if err := c.ChangeOperator(ctx, q); !errors.As(err, &denied) || denied.Error() != "O8: wrong" { // the code once
		t.Fatalf("%v", err)
	}
}

// TestTerminalWithoutSignOnHasNoOperators: the technician's tool takes the file then.
func TestTerminalWithoutSignOnHasNoOperators(t *testing.T) {
	d := serve(t)
	if _, err := d.Operators(context.Background()); !errors.Is(err, terminal.ErrNoStaff) {
		t.Errorf("%v", err)
	}
	if err := d.ChangeOperator(context.Background(), OperatorChange{}); !errors.Is(err, terminal.ErrNoStaff) {
		t.Errorf("%v", err)
	}
}
