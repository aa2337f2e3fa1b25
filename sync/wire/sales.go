package wire

import "errors"

// FeedSales ends the sales of a block, or lets them go on: while they are ended none of its
// packs is put on sale. Packs that are on sale stay so, and are paid.
const FeedSales FeedKind = "sales"

// SalesItem is about the packs of one block.
type SalesItem struct {
	GameCode string `json:"game_code"` // as printed, padded
	First    uint32 `json:"first"`     // the block's first pack
	Last     uint32 `json:"last"`
	Ended    bool   `json:"ended"`
	Reason   string `json:"reason"` // for a technician, at most MaxReason bytes
}

// Check bounds what an item says.
func (s SalesItem) Check() error {
	if s.GameCode == "" || len(s.GameCode) > 16 || s.Last < s.First || len(s.Reason) > MaxReason {
		return errors.New("no block whose sales could end")
	}
	return nil
}
