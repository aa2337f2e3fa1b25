package control

import (
	"context"
	"errors"
	"testing"

	"grattoir/device/terminal"
	"grattoir/validate"
)

func TestSocketShowsMessagesAndTakesThatTheyWereRead(t *testing.T) {
	ctx := context.Background()
	d := serve(t)
	if list, err := d.Messages(ctx); err != nil || list == nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	d.says.Say(validate.Message{Number: 3, Mandatory: true, French: "Alerte", English: "Alert"})
	a, err := d.Check(ctx, d.ticket(t, 1, 2000).Digits(), false)
	if err != nil {
		t.Fatal(err)
	}
	var denied *terminal.Denied
	if _, err := d.Pay(ctx, a.ID, false); !errors.As(err, &denied) || denied.Code != "K11" || denied.ClerkEN == "" {
		t.Fatalf("%v", err)
	}
	if err := d.ReadMessage(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if list, err := d.Messages(ctx); err != nil || len(list) != 1 || !list[0].Read || list[0].Reader != "marie" {
		t.Errorf("%+v %v", list, err)
	}
	if paid, err := d.Pay(ctx, a.ID, false); err != nil || paid.Receipt == nil {
		t.Errorf("%v", err)
	}
}
