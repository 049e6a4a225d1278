import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { isSignedIn } from "../session";

// useLive asks every two seconds, or as often as said, while the tab is visible and
// the session has not ended.
export function useLive<T>(key: readonly unknown[], ask: () => Promise<T>, everyMs = 2000): UseQueryResult<T> {
  return useQuery({
    queryKey: key,
    queryFn: ask,
    refetchInterval: () => (isSignedIn() ? everyMs : false),
    refetchIntervalInBackground: false,
    placeholderData: (former: T | undefined) => former as never,
  });
}
