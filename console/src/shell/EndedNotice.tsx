import { Modal, Text } from "@mantine/core";
import { signOut, useWho } from "../session";
import { TokenForm } from "./TokenForm";

// EndedNotice asks for a new token above the screen, which stays as it is.
export function EndedNotice() {
  const who = useWho();
  return (
    <Modal opened onClose={signOut} title="The token is not accepted any more" closeOnClickOutside={false} closeOnEscape={false} closeButtonProps={{ "aria-label": "Sign out" }}>
      <Text size="sm" mb="md" className="breakable">
        The token of {who.name.replace(/^\w+:/, "")} has expired or was removed. Sign in again to go on: what you typed is still there.
      </Text>
      <TokenForm />
    </Modal>
  );
}
