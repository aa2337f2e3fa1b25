package control

import (
	"context"
	"errors"
	"testing"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

func TestSocketShowsPacksAndPutsThemOnSale(t *testing.T) {
	ctx := context.Background()
	d := serve(t)
	for pack, state := range map[uint32]validate.PackState{10: validate.PackDelivered, 11: validate.PackDelivered, 12: validate.PackStolenNow} {
		d.packs.Set(validate.Pack{GameCode: "00399", Number: pack, Known: true, State: state, Own: true, Epoch: 1})
	}
	list, err := d.Packs(ctx)
	if err != nil || len(list) != 3 || list[2].State != validate.PackStolenNow {
		t.Fatalf("%+v %v", list, err)
	}
	code, err := ticket.Make(ticket.G18(), "399", 10, 3, "")
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Check(ctx, code.Digits(), false)
	if err != nil || a.Stage != terminal.OnPack || a.Pack == nil || !a.Pack.Activatable || a.Pack.Note != validate.NotePackDelivered || a.Message.Code != "K3" || a.Verdict.Outcome != "" {
		t.Fatalf("%+v %v", a, err)
	}
	if _, err := d.Pay(ctx, a.ID, true); err == nil {
		t.Error("a pack was paid")
	}
	p, err := d.ActivateShown(ctx, a.ID)
	if err != nil || p.State != validate.PackActive || p.Activatable {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := d.ActivateShown(ctx, "gone"); err == nil {
		t.Error("a view that is not on the counter was acted on")
	}
	if p, err := d.Activate(ctx, "00399", 11); err != nil || p.State != validate.PackActive {
		t.Errorf("%+v %v", p, err)
	}
	if p, err := d.Activate(ctx, "00399", 12); err != nil || p.Note != validate.NotePackStolen || p.Message.Clerk == "" {
		t.Errorf("a stolen pack is answered %+v %v", p, err)
	}
	if p, err := d.Pack(ctx, "00399", 99); err != nil || p.Note != validate.NotePackUnknown {
		t.Errorf("%+v %v", p, err)
	}
	d.packs.Break(errors.New("disk"))
	if _, err := d.Activate(ctx, "00399", 11); err == nil {
		t.Error("an activation that failed is answered as done")
	}
}
